"""The plan of a round from the seed: the kills, their times, and the restarts of the daemon."""

from __future__ import annotations

import random
from dataclasses import dataclass

GANG, SINGLE, QUEUED = "gang", "single", "queued"
STEPS = {GANG: 80, SINGLE: 60, QUEUED: 30}  # each a multiple of what lies between checkpoints
OWN_EXIT = 7  # with which the queued run fails in every other round

# Each alone, then all six pairs.
KINDS = (
    ("daemon",),
    ("agent",),
    ("rank",),
    ("daemon", "daemon"),
    ("agent", "daemon"),
    ("daemon", "rank"),
    ("agent", "agent"),
    ("agent", "rank"),
    ("rank", "rank"),
)


@dataclass(frozen=True)
class PlannedKill:
    """One SIGKILL. `moment` is awaited first, then `delay` seconds."""

    kind: str  # daemon, agent, rank
    target: str  # the run that is hit, by its name
    moment: str  # submit, launch, running, draining; now; restart: of the daemon, into its start
    step: int  # running: of the target
    delay: float


@dataclass(frozen=True)
class Plan:
    seed: int
    index: int
    kills: tuple[PlannedKill, ...]
    pauses: tuple[float, ...]  # how long the daemon stays dead, each time
    by_command: tuple[bool, ...]  # whether a command that needs it starts it, or `serve`
    queued_exit: int  # the exit code of the queued run

    def __str__(self) -> str:
        told = [f"{kill.kind} ({kill.moment} +{kill.delay:.2f} s)" for kill in self.kills]
        return " and ".join(told)


def plan(seed: int, index: int) -> Plan:
    source = random.Random(f"{seed}/{index}")
    kinds = list(KINDS[index % len(KINDS)])
    source.shuffle(kinds)
    first = _first_kill(source, kinds[0])
    kills = [first, *(_second_kill(source, kind, first) for kind in kinds[1:])]
    return Plan(
        seed=seed,
        index=index,
        kills=tuple(kills),
        pauses=tuple(source.uniform(0, 3) for _ in kills),
        by_command=tuple(source.random() < 0.5 for _ in kills),
        queued_exit=source.choice((0, OWN_EXIT)),
    )


def _first_kill(source: random.Random, kind: str) -> PlannedKill:
    target = source.choice((GANG, GANG, GANG, SINGLE))
    moment = source.choice(("submit", "launch", "running", "running", "running", "draining"))
    longest = {"submit": 0.6, "launch": 0.3, "running": 0.05, "draining": 0.15}[moment]
    step = source.randint(1, STEPS[target] * 4 // 5)
    return PlannedKill(kind, target, moment, step, source.uniform(0, longest))


def _second_kill(source: random.Random, kind: str, first: PlannedKill) -> PlannedKill:
    target = source.choice((first.target, first.target, GANG, SINGLE, QUEUED))
    if first.kind == "daemon" and source.random() < 0.5:
        return PlannedKill(kind, target, "restart", 0, source.uniform(0, 0.2))
    # Without a daemon long enough for a spool to fill.
    longest = 2.5 if first.kind == "daemon" else 1.0
    delay = 0.0 if source.random() < 0.4 else source.uniform(0, longest)
    return PlannedKill(kind, target, "now", 0, delay)
