"""What must hold after a round, whatever was killed: the store against the ranks' own diaries.

**What may be missing.** A rank's report or line that the diary calls done is in the store, with one
exception: an agent that is killed takes along what it had not read yet from the ranks' pipes and
sockets, and lines of the last 100 ms, which it had not spooled. So what a rank did within
AGENT_HELD of its agent's death may be missing. What was spooled may not: the janitor stores it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from _survive.blows import Absence, Hit
from _survive.diaries import Diary
from _survive.plan import GANG, OWN_EXIT, QUEUED, SINGLE, STEPS, Plan
from _survive.world import Violation

AGENT_HELD = 1.0  # seconds; 0.1 s and what a busy machine adds until an agent has its turn
DEVICES_OF_HOST = 3
ABSENCE_JUDGED = 0.7  # seconds; in a shorter absence a step may be late on a busy machine
LOSSES = ("rank_lost", "node_lost", "node_stopped", "launch_failed")


@dataclass
class Evidence:
    plan: Plan
    hits: list[Hit]
    absences: list[Absence]
    views: dict[str, dict[str, Any]]  # by run
    diaries: list[Diary]
    points: dict[str, dict[tuple[int, int], list[float]]]  # by run, then by rank and step
    lines: dict[str, list[str]]  # by run
    agent_logs: dict[str, str]  # by path

    def of_run(self, run: str) -> list[Diary]:
        return [diary for diary in self.diaries if diary.run == run]

    def may_be_missing(self, diary: Diary, step: int) -> bool:
        """Whether the agent died so soon after the step that it may not have kept it."""
        return any(
            hit.member.kind == "agent"
            and (hit.member.run, hit.member.epoch) == (diary.run, diary.epoch)
            and hit.member.node == diary.node
            and diary.begun[step] > hit.time - AGENT_HELD
            for hit in self.hits
        )


def check(evidence: Evidence) -> None:
    """Raises Violation with all that is wrong."""
    checks: list[Callable[[Evidence], Iterator[str]]] = [
        every_run_is_there,
        every_run_ended_as_it_should,
        attempts_have_a_reason,
        a_lost_rank_is_named,
        nothing_ran_twice,
        each_node_had_one_agent,
        no_host_was_overbooked,
        all_steps_were_done,
        points_are_those_of_the_last_attempt,
        lines_came_once_and_in_order,
        runs_went_on_without_a_daemon,
        the_queued_run_waited,
    ]
    wrong = [words for one in checks for words in one(evidence)]
    if wrong:
        more = f"\n... and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        raise Violation("\n".join(wrong[:20]) + more)


def every_run_is_there(evidence: Evidence) -> Iterator[str]:
    """One of each project. A daemon that dies before the run is stored may have used its number."""
    wanted = sorted((GANG, SINGLE, QUEUED))
    if sorted(run.split("/")[0] for run in evidence.views) != wanted:
        yield f"the runs are {sorted(evidence.views)}, not one each of {', '.join(wanted)}"


def every_run_ended_as_it_should(evidence: Evidence) -> Iterator[str]:
    for run, view in evidence.views.items():
        fails = run.startswith(QUEUED) and evidence.plan.queued_exit == OWN_EXIT
        state, reason = view["state"], view["reason"]
        if state != ("failed" if fails else "succeeded"):
            yield f"{run} {state}: {reason}"
        elif fails and f"exited with code {OWN_EXIT}" not in reason:
            yield f"{run} failed for another reason than its own exit: {reason}"
        elif not fails and shown_step(view) != steps_of(run) and not loses_reports(evidence, run):
            yield f"{run} shows progress {view['progress']}, not step {steps_of(run)}"


def shown_step(view: dict[str, Any]) -> int | None:
    return (view["progress"] or {}).get("step")


def loses_reports(evidence: Evidence, run: str) -> bool:
    return any(hit.member.kind == "agent" for hit in hits_of(evidence, run))


def hits_of(evidence: Evidence, run: str, epoch: int | None = None) -> list[Hit]:
    return [
        hit for hit in evidence.hits if hit.member.run == run and epoch in (None, hit.member.epoch)
    ]


def steps_of(run: str) -> int:
    return STEPS[run.partition("/")[0]]


def attempts_have_a_reason(evidence: Evidence) -> Iterator[str]:
    """Epochs count from 1 without holes, and only a kill makes another attempt."""
    for run, view in evidence.views.items():
        attempts = view["attempts"]
        epochs = [attempt["epoch"] for attempt in attempts]
        if epochs != list(range(1, len(epochs) + 1)):
            yield f"{run} has the attempts {epochs}"
        for attempt in attempts[:-1]:
            name = f"{run}.{attempt['epoch']}"
            if not hits_of(evidence, run, attempt["epoch"]):
                yield f"{name} ended with nothing killed: {attempt['reason']}"
            if attempt["cause"] not in LOSSES:
                yield f"{name} ended with cause {attempt['cause']}: {attempt['reason']}"


def a_lost_rank_is_named(evidence: Evidence) -> Iterator[str]:
    """An attempt of which one rank alone was killed names it, and not a peer that failed of it."""
    for run, view in evidence.views.items():
        for attempt in view["attempts"]:
            hits = hits_of(evidence, run, attempt["epoch"])
            if len(hits) != 1 or hits[0].member.kind != "rank" or attempt["cause"] == "ok":
                continue
            named = f"rank {hits[0].member.rank} on host"
            own_exit = "user_exit" in attempt["cause"] and str(OWN_EXIT) in attempt["reason"]
            if named not in attempt["reason"] and not own_exit:
                yield f"{hits[0].member} was killed, but it says: {attempt['reason']}"


def nothing_ran_twice(evidence: Evidence) -> Iterator[str]:
    for diary in evidence.diaries:
        if len(diary.starts) > 1:
            yield f"{diary.name} was started {len(diary.starts)} times"
        if diary.repeated:
            yield f"{diary.name} did steps {diary.repeated[:5]} twice"
        for start in diary.starts:
            if start["others"]:
                yield f"{diary.name} began while {start['others']} still lived"
    by_rank: dict[tuple[str, int], list[Diary]] = {}
    for diary in evidence.diaries:
        by_rank.setdefault((diary.run, diary.rank), []).append(diary)
    for diaries in by_rank.values():
        for earlier, later in pairwise(diaries):
            if earlier.last_time() > later.starts[0]["time"]:
                yield f"{earlier.name} still worked when {later.name} had begun"


def each_node_had_one_agent(evidence: Evidence) -> Iterator[str]:
    agents: dict[tuple[str, int, int], set[tuple[int, str]]] = {}
    for diary in evidence.diaries:
        for start in diary.starts:
            node = agents.setdefault((diary.run, diary.epoch, diary.node), set())
            node.add((start["agent"], start["agent_born"]))
    for (run, epoch, number), found in agents.items():
        if len(found) > 1:
            yield f"the ranks of {run}.{epoch}/{number} had {len(found)} agents"
    for path, text in evidence.agent_logs.items():
        begun = sum(" on host " in line and "pid " in line for line in text.splitlines())
        if begun > 1:
            yield f"{begun} agents served one node: {path}"


def no_host_was_overbooked(evidence: Evidence) -> Iterator[str]:
    """Ranks whose diaries say that they worked at one moment fit on their host's devices."""
    changes: dict[str, list[tuple[float, int]]] = {}
    for diary in evidence.diaries:
        on_host = changes.setdefault(diary.starts[0]["host"], [])
        on_host += [(diary.starts[0]["time"], 1), (diary.last_time(), -1)]
    for host, moments in changes.items():
        working = 0
        for _, change in sorted(moments):
            working += change
            if working > DEVICES_OF_HOST:
                yield f"{working} ranks worked at once on {host} of {DEVICES_OF_HOST} devices"


def all_steps_were_done(evidence: Evidence) -> Iterator[str]:
    for run in evidence.views:
        by_rank: dict[int, set[int]] = {}
        for diary in evidence.of_run(run):
            by_rank.setdefault(diary.rank, set()).update(diary.done)
        for rank, done in by_rank.items():
            if missing := set(range(1, steps_of(run) + 1)) - done:
                yield f"rank {rank} of {run} never did the steps {sorted(missing)[:5]}"


def points_are_those_of_the_last_attempt(evidence: Evidence) -> Iterator[str]:
    """Each step counted once, as the last attempt that did it said."""
    for run, points in evidence.points.items():
        ranks = {diary.rank for diary in evidence.of_run(run)}
        for rank in sorted(ranks):
            for step in range(1, steps_of(run) + 1):
                allowed = allowed_values(evidence, run, rank, step)
                found = points.get((rank, step), [])
                if len(found) > 1:
                    yield f"step {step} of rank {rank} of {run} was counted as {found}"
                elif (found[0] if found else None) not in allowed:
                    yield f"step {step} of rank {rank} of {run} is {found}, not {allowed}"
        beyond = [key for key in points if key[0] not in ranks or key[1] > steps_of(run)]
        if beyond:
            yield f"{run} has points that nobody reported: {beyond[:5]}"


def allowed_values(evidence: Evidence, run: str, rank: int, step: int) -> list[float | None]:
    """From the newest attempt back, until one surely reported it."""
    allowed: list[float | None] = []
    for diary in reversed(evidence.of_run(run)):
        if diary.rank != rank or step not in diary.begun:
            continue
        allowed.append(step + diary.epoch / 1000)
        if step in diary.done and not evidence.may_be_missing(diary, step):
            return allowed
    return [*allowed, None]


def lines_came_once_and_in_order(evidence: Evidence) -> Iterator[str]:
    for run, lines in evidence.lines.items():
        counted = [line for line in lines if line.startswith("counted ")]
        doubled = [line for line, times in Counter(counted).items() if times > 1]
        if doubled:
            yield f"{run}: {len(doubled)} lines are in the store twice, such as '{doubled[0]}'"
        by_rank: dict[tuple[int, int], list[int]] = {}
        for line in counted:
            epoch, rank, step = map(int, line.split()[1:])
            by_rank.setdefault((epoch, rank), []).append(step)
        for diary in evidence.of_run(run):
            yield from lines_of(evidence, diary, by_rank.pop((diary.epoch, diary.rank), []))
        if by_rank:
            yield f"{run} has lines that nobody wrote: {sorted(by_rank)[:5]}"


def lines_of(evidence: Evidence, diary: Diary, stored: list[int]) -> Iterator[str]:
    if stored != sorted(stored):
        yield f"the lines of {diary.name} are out of order"
    if beyond := set(stored) - set(diary.begun):
        yield f"{diary.name} did not write the lines {sorted(beyond)[:5]}"
    missing = sorted(set(diary.done) - set(stored))
    lost = [step for step in missing if not evidence.may_be_missing(diary, step)]
    if lost:
        yield f"the lines {lost[:5]} of {diary.name} are lost ({len(lost)} in all)"


def runs_went_on_without_a_daemon(evidence: Evidence) -> Iterator[str]:
    """Who worked before an absence and after it worked during it."""
    for absence in evidence.absences:
        if absence.until - absence.since < ABSENCE_JUDGED:
            continue
        for diary in evidence.diaries:
            times = sorted(diary.done.values())
            before = any(time < absence.since for time in times)
            after = any(time > absence.until for time in times)
            during = any(absence.since < time < absence.until for time in times)
            if before and after and not during:
                yield f"{diary.name} stood still while the daemon was away"


def the_queued_run_waited(evidence: Evidence) -> Iterator[str]:
    """It needs a device of both hosts, and the other two runs leave one host full."""
    queued = [each for each in evidence.diaries if each.run.startswith(f"{QUEUED}/")]
    begun = [diary.starts[0]["time"] for diary in queued]
    others = [each for each in evidence.diaries if each not in queued]
    ended = [diary.last_time() for diary in others]
    if begun and ended and min(begun) < min(ended):
        yield "the queued run began before any rank of the others had ended"
