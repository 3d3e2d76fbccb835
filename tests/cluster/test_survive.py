"""Ten rounds of the survival bench: whatever is killed, the runs end as they should.

All hundred are `./dev bench survive`, which also holds the times to their bars. Here they may take
five times as long, because tests run on machines that do other things as well.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from statistics import median

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench/platform"))

from _survive.checks import RoundRecord, check
from _survive.local_cluster import Violation
from _survive.plan import GANG, KINDS, QUEUED, SINGLE, plan
from _survive.round import Result, play

SEED = 29
ROUNDS = 10
BUSY = 5
ANSWER_BAR, STATE_BAR = 2.0, 1.0  # seconds, as in bench/platform/survive.py

played: dict[int, Result] = {}


@pytest.mark.parametrize("index", range(ROUNDS))
def test_runs_survive_what_is_killed(index: int) -> None:
    played[index] = play(plan(SEED, index))


def test_daemon_and_ranks_are_back_and_seen_in_time() -> None:
    answers = [each for result in played.values() for each in result.seconds_to_answer]
    states = [each for result in played.values() for each in result.seconds_to_state]
    assert median(answers) < ANSWER_BAR * BUSY
    assert median(states) < STATE_BAR * BUSY


def test_the_rounds_kill_every_kind_alone_and_in_every_pair() -> None:
    planned = {
        tuple(sorted(blow.kind for blow in plan(SEED, index).kills)) for index in range(ROUNDS)
    }
    assert planned == {tuple(sorted(kinds)) for kinds in KINDS}
    assert plan(SEED, 3) == plan(SEED, 3) != plan(SEED + 1, 3)


@pytest.fixture
def evidence() -> RoundRecord:
    """The record of a round without a failure or a killed agent, for tests to spoil."""
    index = 0
    if index not in played:
        played[index] = play(plan(SEED, index))
    return copy.deepcopy(played[index].evidence)


def lose_a_point(evidence: RoundRecord) -> None:
    del evidence.points[f"{GANG}/1"][2, 40]


def change_a_point(evidence: RoundRecord) -> None:
    evidence.points[f"{GANG}/1"][2, 40] = [40.5]


def count_a_point_twice(evidence: RoundRecord) -> None:
    evidence.points[f"{GANG}/1"][2, 40] *= 2


def add_a_point(evidence: RoundRecord) -> None:
    evidence.points[f"{SINGLE}/1"][0, 1000] = [1.0]


def lose_a_line(evidence: RoundRecord) -> None:
    evidence.lines[f"{GANG}/1"].remove("counted 1 3 7")


def double_a_line(evidence: RoundRecord) -> None:
    evidence.lines[f"{GANG}/1"].append("counted 1 3 7")


def swap_two_lines(evidence: RoundRecord) -> None:
    lines = evidence.lines[f"{SINGLE}/1"]
    first, second = lines.index("counted 1 0 7"), lines.index("counted 1 0 8")
    lines[first], lines[second] = lines[second], lines[first]


def lose_a_run(evidence: RoundRecord) -> None:
    del evidence.views[f"{QUEUED}/1"]


def fail_a_run(evidence: RoundRecord) -> None:
    evidence.views[f"{SINGLE}/1"]["state"] = "failed"


def retry_without_a_loss(evidence: RoundRecord) -> None:
    attempts = evidence.views[f"{SINGLE}/1"]["attempts"]
    attempts.append({**attempts[0], "epoch": 2})


def start_a_rank_twice(evidence: RoundRecord) -> None:
    evidence.rank_logs[0].starts *= 2


def overlap_attempts(evidence: RoundRecord) -> None:
    evidence.rank_logs[0].starts[0]["others"] = ["gang-1.1.0"]


def add_an_agent(evidence: RoundRecord) -> None:
    evidence.of_run(f"{GANG}/1")[0].starts[0]["agent"] += 1


def stand_still_without_a_daemon(evidence: RoundRecord) -> None:
    absence = evidence.downtimes[0]
    for diary in evidence.rank_logs:
        for step, time in diary.done.items():
            if absence.since < time < absence.until:
                diary.done[step] = absence.until + 0.001


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lose_a_point, "step 40 of rank 2 of gang/1 is []"),
        (change_a_point, "step 40 of rank 2 of gang/1 is [40.5]"),
        (count_a_point_twice, "was counted as [40.001, 40.001]"),
        (add_a_point, "points that nobody reported"),
        (lose_a_line, "the lines [7] of rank 3 of gang/1.1 are lost"),
        (double_a_line, "lines are in the store twice, such as 'counted 1 3 7'"),
        (swap_two_lines, "the lines of rank 0 of single/1.1 are out of order"),
        (lose_a_run, "the runs are ['gang/1', 'single/1']"),
        (fail_a_run, "single/1 failed"),
        (retry_without_a_loss, "single/1.1 ended with nothing killed"),
        (start_a_rank_twice, "was started 2 times"),
        (overlap_attempts, "began while ['gang-1.1.0'] still lived"),
        (add_an_agent, "the ranks of gang/1.1/0 had 2 agents"),
        (stand_still_without_a_daemon, "stood still while the daemon was away"),
    ],
)
def test_a_broken_promise_is_noticed(
    evidence: RoundRecord, spoil: Callable[[RoundRecord], None], told: str
) -> None:
    check(evidence)
    spoil(evidence)
    with pytest.raises(Violation) as violation:
        check(evidence)
    assert told in str(violation.value)
