"""The checks after a round, whatever was killed: the store against the ranks' own rank_logs.

**What may be missing.** A report or line that the rank's log calls done is in the store, with two
exceptions. An agent that is killed loses what it had not read yet from the ranks' pipes and
sockets, and lines of the last 100 ms, which it had not spooled. So reports of a rank within
AGENT_HELD of its agent's death may be missing. Spooled items may not: the janitor stores them.
A rank that is killed loses the metrics that its thread had not sent, those of METRICS_HELD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from _survive.kill_runner import DaemonDowntime, DoneKill
from _survive.local_cluster import Violation
from _survive.plan import GANG, OWN_EXIT, QUEUED, SINGLE, STEPS, Plan
from _survive.rank_logs import RankLog

AGENT_HELD = 1.0  # seconds; 0.1 s and what a busy machine adds until an agent has its turn
METRICS_HELD = 0.04  # seconds; 0.02 s and what a busy machine adds until the thread has its turn
DEVICES_OF_HOST = 3
DOWNTIME_CHECKED = 0.7  # seconds; in a shorter absence a step may be late on a busy machine
LOSSES = ("rank_lost", "node_lost", "node_stopped", "launch_failed")


@dataclass
class RoundRecord:
    plan: Plan
    done_kills: list[DoneKill]
    downtimes: list[DaemonDowntime]
    views: dict[str, dict[str, Any]]  # by run
    rank_logs: list[RankLog]
    points: dict[str, dict[tuple[int, int], list[float]]]  # by run, then by rank and step
    lines: dict[str, list[str]]  # by run
    agent_logs: dict[str, str]  # by path

    def of_run(self, run: str) -> list[RankLog]:
        return [log for log in self.rank_logs if log.run == run]

    def may_be_missing(self, log: RankLog, step: int) -> bool:
        """True if the agent died so soon after the step that it may not have kept it."""
        return any(
            kill.member.kind == "agent"
            and (kill.member.run, kill.member.epoch) == (log.run, log.epoch)
            and kill.member.node == log.node
            and log.begun[step] > kill.time - AGENT_HELD
            for kill in self.done_kills
        )

    def metrics_may_be_missing(self, log: RankLog, step: int) -> bool:
        """The same for metrics, which are also lost if the rank died so soon."""
        return self.may_be_missing(log, step) or any(
            kill.member.pid in (start["pid"] for start in log.starts)
            and log.begun[step] > kill.time - METRICS_HELD
            for kill in self.done_kills
            if kill.member.kind == "rank"
        )


def check(evidence: RoundRecord) -> None:
    """Raises Violation with all violations."""
    checks: list[Callable[[RoundRecord], Iterator[str]]] = [
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


def every_run_is_there(evidence: RoundRecord) -> Iterator[str]:
    """One of each project. A daemon that dies before the run is stored may have used its number."""
    wanted = sorted((GANG, SINGLE, QUEUED))
    if sorted(run.split("/")[0] for run in evidence.views) != wanted:
        yield f"the runs are {sorted(evidence.views)}, not one each of {', '.join(wanted)}"


def every_run_ended_as_it_should(evidence: RoundRecord) -> Iterator[str]:
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


def loses_reports(evidence: RoundRecord, run: str) -> bool:
    return any(kill.member.kind == "agent" for kill in kills_of(evidence, run))


def kills_of(evidence: RoundRecord, run: str, epoch: int | None = None) -> list[DoneKill]:
    return [
        kill
        for kill in evidence.done_kills
        if kill.member.run == run and epoch in (None, kill.member.epoch)
    ]


def steps_of(run: str) -> int:
    return STEPS[run.partition("/")[0]]


def attempts_have_a_reason(evidence: RoundRecord) -> Iterator[str]:
    """Epochs count from 1 without holes, and only a kill makes another attempt."""
    for run, view in evidence.views.items():
        attempts = view["attempts"]
        epochs = [attempt["epoch"] for attempt in attempts]
        if epochs != list(range(1, len(epochs) + 1)):
            yield f"{run} has the attempts {epochs}"
        for attempt in attempts[:-1]:
            name = f"{run}.{attempt['epoch']}"
            if not kills_of(evidence, run, attempt["epoch"]):
                yield f"{name} ended with nothing killed: {attempt['reason']}"
            if attempt["cause"] not in LOSSES:
                yield f"{name} ended with cause {attempt['cause']}: {attempt['reason']}"


def a_lost_rank_is_named(evidence: RoundRecord) -> Iterator[str]:
    """An attempt of which one rank alone was killed names it, and not a peer that failed of it."""
    for run, view in evidence.views.items():
        for attempt in view["attempts"]:
            done_kills = kills_of(evidence, run, attempt["epoch"])
            if (
                len(done_kills) != 1
                or done_kills[0].member.kind != "rank"
                or attempt["cause"] == "ok"
            ):
                continue
            named = f"rank {done_kills[0].member.rank} on host"
            own_exit = "user_exit" in attempt["cause"] and str(OWN_EXIT) in attempt["reason"]
            if named not in attempt["reason"] and not own_exit:
                yield f"{done_kills[0].member} was killed, but it says: {attempt['reason']}"


def nothing_ran_twice(evidence: RoundRecord) -> Iterator[str]:
    for log in evidence.rank_logs:
        if len(log.starts) > 1:
            yield f"{log.name} was started {len(log.starts)} times"
        if log.repeated:
            yield f"{log.name} did steps {log.repeated[:5]} twice"
        for start in log.starts:
            if start["others"]:
                yield f"{log.name} began while {start['others']} still lived"
    by_rank: dict[tuple[str, int], list[RankLog]] = {}
    for log in evidence.rank_logs:
        by_rank.setdefault((log.run, log.rank), []).append(log)
    for rank_logs in by_rank.values():
        for earlier, later in pairwise(rank_logs):
            if earlier.last_time() > later.starts[0]["time"]:
                yield f"{earlier.name} still worked when {later.name} had begun"


def each_node_had_one_agent(evidence: RoundRecord) -> Iterator[str]:
    agents: dict[tuple[str, int, int], set[tuple[int, str]]] = {}
    for log in evidence.rank_logs:
        for start in log.starts:
            node = agents.setdefault((log.run, log.epoch, log.node), set())
            node.add((start["agent"], start["agent_born"]))
    for (run, epoch, number), found in agents.items():
        if len(found) > 1:
            yield f"the ranks of {run}.{epoch}/{number} had {len(found)} agents"
    for path, text in evidence.agent_logs.items():
        begun = sum(" on host " in line and "pid " in line for line in text.splitlines())
        if begun > 1:
            yield f"{begun} agents served one node: {path}"


def no_host_was_overbooked(evidence: RoundRecord) -> Iterator[str]:
    """Ranks whose rank_logs say that they worked at one moment fit on their host's devices."""
    changes: dict[str, list[tuple[float, int]]] = {}
    for log in evidence.rank_logs:
        on_host = changes.setdefault(log.starts[0]["host"], [])
        on_host += [(log.starts[0]["time"], 1), (log.last_time(), -1)]
    for host, moments in changes.items():
        working = 0
        for _, change in sorted(moments):
            working += change
            if working > DEVICES_OF_HOST:
                yield f"{working} ranks worked at once on {host} of {DEVICES_OF_HOST} devices"


def all_steps_were_done(evidence: RoundRecord) -> Iterator[str]:
    for run in evidence.views:
        by_rank: dict[int, set[int]] = {}
        for log in evidence.of_run(run):
            by_rank.setdefault(log.rank, set()).update(log.done)
        for rank, done in by_rank.items():
            if missing := set(range(1, steps_of(run) + 1)) - done:
                yield f"rank {rank} of {run} never did the steps {sorted(missing)[:5]}"


def points_are_those_of_the_last_attempt(evidence: RoundRecord) -> Iterator[str]:
    """Each step counted once, as the last attempt that did it said."""
    for run, points in evidence.points.items():
        ranks = {log.rank for log in evidence.of_run(run)}
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


def allowed_values(evidence: RoundRecord, run: str, rank: int, step: int) -> list[float | None]:
    """From the newest attempt back, until one surely reported it."""
    allowed: list[float | None] = []
    for log in reversed(evidence.of_run(run)):
        if log.rank != rank or step not in log.begun:
            continue
        allowed.append(step + log.epoch / 1000)
        if step in log.done and not evidence.metrics_may_be_missing(log, step):
            return allowed
    return [*allowed, None]


def lines_came_once_and_in_order(evidence: RoundRecord) -> Iterator[str]:
    for run, lines in evidence.lines.items():
        counted = [line for line in lines if line.startswith("counted ")]
        doubled = [line for line, times in Counter(counted).items() if times > 1]
        if doubled:
            yield f"{run}: {len(doubled)} lines are in the store twice, such as '{doubled[0]}'"
        by_rank: dict[tuple[int, int], list[int]] = {}
        for line in counted:
            epoch, rank, step = map(int, line.split()[1:])
            by_rank.setdefault((epoch, rank), []).append(step)
        for log in evidence.of_run(run):
            yield from lines_of(evidence, log, by_rank.pop((log.epoch, log.rank), []))
        if by_rank:
            yield f"{run} has lines that nobody wrote: {sorted(by_rank)[:5]}"


def lines_of(evidence: RoundRecord, log: RankLog, stored: list[int]) -> Iterator[str]:
    if stored != sorted(stored):
        yield f"the lines of {log.name} are out of order"
    if beyond := set(stored) - set(log.begun):
        yield f"{log.name} did not write the lines {sorted(beyond)[:5]}"
    missing = sorted(set(log.done) - set(stored))
    lost = [step for step in missing if not evidence.may_be_missing(log, step)]
    if lost:
        yield f"the lines {lost[:5]} of {log.name} are lost ({len(lost)} in all)"


def runs_went_on_without_a_daemon(evidence: RoundRecord) -> Iterator[str]:
    """Checks that ranks that worked before and after a downtime also worked during it."""
    for absence in evidence.downtimes:
        if absence.until - absence.since < DOWNTIME_CHECKED:
            continue
        for log in evidence.rank_logs:
            times = sorted(log.done.values())
            before = any(time < absence.since for time in times)
            after = any(time > absence.until for time in times)
            during = any(absence.since < time < absence.until for time in times)
            if before and after and not during:
                yield f"{log.name} stood still while the daemon was away"


def the_queued_run_waited(evidence: RoundRecord) -> Iterator[str]:
    """It needs a device of both hosts, and the other two runs leave one host full.

    A rank that is killed as it starts writes no log: its kill frees the devices all the same.
    """
    queued = [each for each in evidence.rank_logs if each.run.startswith(f"{QUEUED}/")]
    begun = [log.starts[0]["time"] for log in queued]
    ended = [log.last_time() for log in evidence.rank_logs if log not in queued]
    kills = [kill for kill in evidence.done_kills if kill.member.kind in ("agent", "rank")]
    ended += [kill.time for kill in kills if not kill.member.run.startswith(f"{QUEUED}/")]
    if begun and ended and min(begun) < min(ended):
        yield "the queued run began before any rank of the others had ended"
