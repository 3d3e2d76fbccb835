"""A rank of a training is killed: the time until the others continue, and their losses.

Four ranks train a small model. One kills itself at a point of a step (in a gather, in hop 1 or 2,
in the norm, behind the step, with a snapshot or a save in flight, or at any moment), the others go
on as the replicas that are left, or wait for another in its place. The rows have the slowest kill
of each kind: until all others have their error, and until the first new step is done. Steps and
losses are compared with those of one process without a kill.

    ./dev bench recover [--kills N] [--seed N] [--policies ddp,mics:2] [--modes shrink,wait]

With --twice N runs under one daemon each lose two or three ranks, 0 to 3 s apart, and must end well
all the same; _recover_twice.py. Trial K of --seed S is repeated by --kills 1 --seed S+K.

    ./dev bench recover --twice [--kills N] [--seed N] [--policies ...] [--modes ...]
                        [--languages C++,Python] [--steps N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import _recover_twice as twice

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "bin" / "bench_recover"

RANKS = 4
STEPS = 12
POINTS = ("gather", "hop1", "hop2", "norm", "optimizer", "snapshot", "persist", "any")
ANSWER_MAX = 120.0  # seconds that one training may take
NOTICED_BAR = 1.0
STEP_BARS = {"shrink": 5.0, "wait": 15.0}
LOSS_TOLERANCE = 1e-4  # of a loss: sums are taken in another order
QUIET = {"LOCKSTEP_LOG": "error", "OMP_NUM_THREADS": "1"}


class Violation(Exception):
    pass


@dataclass
class RankOutput:
    """The output of one process."""

    lines: list[list[str]] = field(default_factory=list)

    def moments(self, word: str) -> list[float]:
        """The moments of the lines that begin with the word."""
        place = {"step": 3, "recovered": 2}.get(word, 1)
        return [float(line[place]) for line in self.lines if line[0] == word]

    def losses(self) -> list[tuple[int, float, float]]:
        """Steps with their losses and moments."""
        return [(int(n), float(loss), float(at)) for w, n, loss, at in self.steps() if w]

    def steps(self) -> list[list[str]]:
        return [line[:4] for line in self.lines if line[0] == "step"]


class Process:
    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(PROGRAM), *arguments],
            env=os.environ | QUIET | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told = RankOutput()
        self._errors = ""
        self._readers = [
            threading.Thread(target=self._read_lines),
            threading.Thread(target=self._read_errors),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.lines.append(line.split())

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors = self._process.stderr.read()

    def wait(self, deadline: float) -> int:
        """Its status; it is ended at the deadline."""
        try:
            status = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for reader in self._readers:
            reader.join()
        return status

    @property
    def errors(self) -> str:
        return self._errors.strip()


class RendezvousProcess:
    """The rendezvous, as an agent runs it."""

    def __init__(self, secret: Path) -> None:
        self._process = subprocess.Popen(
            [str(PROGRAM), "serve"],
            env=os.environ | {"LOCKSTEP_SECRET_FILE": str(secret)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().split()[1])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True)
class Kill:
    mode: str
    policy: str
    point: str
    victim: int
    step: int
    delay_us: int

    def __str__(self) -> str:
        return f"{self.mode}, {self.policy}: rank {self.victim} at {self.point} of {self.step}"


@dataclass
class Outcome:
    noticed: float
    new_step: float
    lost: int  # steps that were done and had to be done again
    off: float  # the largest relative difference of a loss


def reference_losses() -> dict[int, float]:
    process = Process(["train", "ddp", str(STEPS)], {})
    if process.wait(time.monotonic() + ANSWER_MAX) != 0:
        raise Violation(f"one process alone: {process.errors}")
    return {step: loss for step, loss, _ in process.told.losses()}


def train(kill: Kill, folder: Path) -> tuple[list[Process], Process]:
    """All ranks that were left, ended well; and the one that was killed."""
    secret = folder / "secret"
    secret.write_text(secrets.token_hex(32))
    place = RendezvousProcess(secret)

    def start(rank: int, death: list[str], replaces: bool) -> Process:
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{place.port}",
            "LOCKSTEP_SECRET_FILE": str(secret),
            "LOCKSTEP_HOST_ID": "bench",
            "LOCKSTEP_ADDRESS": "127.0.0.1",
            "LOCKSTEP_ON_FAILURE": kill.mode,
            "LOCKSTEP_REPLACES": "1" if replaces else "0",
            "LOCKSTEP_CHECKPOINT_DIR": str(folder / "checkpoints"),
        }
        return Process(["train", kill.policy, str(STEPS), *death], environment)

    death = [kill.point, str(kill.step), str(kill.delay_us)]
    deadline = time.monotonic() + ANSWER_MAX
    ranks = [start(rank, death if rank == kill.victim else [], False) for rank in range(RANKS)]
    victim = ranks.pop(kill.victim)
    victim.wait(deadline)
    if kill.mode == "wait":
        ranks.append(start(kill.victim, [], True))
    statuses = [process.wait(deadline) for process in ranks]
    place.close()
    if any(statuses):
        raise Violation(f"{kill}: {'; '.join(p.errors for p in ranks if p.errors)}")
    return ranks, victim


def play(kill: Kill, right: dict[int, float]) -> Outcome:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # which only we can enter
        ranks, victim = train(kill, Path(folder))
    if not victim.told.moments("dying"):
        raise Violation(f"{kill}: it did not die")
    died = victim.told.moments("dying")[0]
    said = [*victim.told.losses(), *(row for rank in ranks for row in rank.told.losses())]
    # The step after which it died, or with which others caught up, may be missing.
    caught_up = {
        int(line[1]) for rank in ranks for line in rank.told.lines if line[0] == "recovered"
    }
    if missing := set(right) - {step for step, _, _ in said} - caught_up:
        raise Violation(f"{kill}: steps {sorted(missing)} are missing")
    later = sorted(row for row in said if row[2] > died)
    recovered = min(at for rank in ranks for at in rank.told.moments("recovered"))
    new = [row for row in later if row[2] > recovered]
    before = max((step for step, _, at in said if at <= recovered), default=0)
    return Outcome(
        noticed=max(rank.told.moments("broken")[0] for rank in ranks if rank.told.moments("broken"))
        - died,
        new_step=min(at for _, _, at in new) - died,
        lost=max(0, before - min(step for step, _, _ in new) + 1),
        off=max(abs(loss - right[step]) / abs(right[step]) for step, loss, _ in said),
    )


def kills(given: argparse.Namespace) -> list[Kill]:
    generator = random.Random(given.seed)
    drawn = []
    for number in range(given.kills):
        point = POINTS[number % len(POINTS)]
        saving = point in ("snapshot", "persist")
        drawn.append(
            Kill(
                mode=given.modes[number // len(POINTS) % len(given.modes)],
                policy=generator.choice(given.policies),
                point=point,
                victim=generator.randrange(RANKS),
                step=generator.choice((2, 5)) if saving else generator.randrange(2, STEPS - 3),
                delay_us=generator.randrange(5_000 if saving else 60_000),
            )
        )
    return drawn


def rows(mode: str, outcomes: list[Outcome]) -> list[dict[str, object]]:
    def row(case: str, values: list[float], bar: float) -> dict[str, object]:
        slowest = max(values)
        return {
            "bench": "recover",
            "case": f"{mode}: {case}",
            "kills": len(values),
            "ranks": RANKS,
            "median": round(statistics.median(values), 4),
            "unit": "s",
            "ours": round(slowest, 4),
            "peer": bar,
            "peer_name": "allowed",
            "ratio": round(bar / slowest, 2) if slowest > 0 else 999.0,
            "bar": 1.0,
        }

    return [
        row("until all others have their error", [o.noticed for o in outcomes], NOTICED_BAR),
        row("until the first new step", [o.new_step for o in outcomes], STEP_BARS[mode]),
        {
            "bench": "recover",
            "case": f"{mode}: steps lost, and the largest relative difference of a loss",
            "kills": len(outcomes),
            "unit": "steps",
            "ours": sum(o.lost for o in outcomes),
            "off": max(o.off for o in outcomes),
        },
    ]


def words(text: str) -> list[str]:
    return text.split(",")


def kill_twice(given: argparse.Namespace) -> int:
    choices = {
        "policy": given.policies or ["ddp", "mics:2", "zero3"],
        "mode": given.modes,
        "language": given.languages,
    }
    trials = [twice.Trial.draw(given.seed + number, choices) for number in range(given.kills)]
    return twice.measure(trials, given.steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", type=words, help="default: ddp,mics:2; twice: and zero3")
    parser.add_argument("--modes", type=words, default=["shrink", "wait"])
    parser.add_argument("--twice", action="store_true", help="two or three kills in a run")
    parser.add_argument("--languages", type=words, default=["C++", "Python"], help="with --twice")
    parser.add_argument("--steps", type=int, default=800, help="of a run, with --twice")
    given = parser.parse_args()
    if given.twice:
        return kill_twice(given)
    given.policies = given.policies or ["ddp", "mics:2"]
    found: dict[str, list[Outcome]] = {}
    try:
        right = reference_losses()
        for kill in kills(given):
            outcome = play(kill, right)
            print(
                f"{kill}: noticed after {outcome.noticed:.3f} s, new step after "
                f"{outcome.new_step:.3f} s, {outcome.lost} steps lost, off by {outcome.off:.1e}",
                file=sys.stderr,
                flush=True,
            )
            if outcome.off > LOSS_TOLERANCE:
                raise Violation(f"{kill}: a loss is off by {outcome.off:.1e}")
            found.setdefault(kill.mode, []).append(outcome)
    except Violation as violation:
        print(f"VIOLATED: {violation}", file=sys.stderr)
        return 1
    for mode, outcomes in found.items():
        for line in rows(mode, outcomes):
            print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
