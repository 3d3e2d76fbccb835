"""The benchmark of training steps: its contestants, the least bytes to send, and its rows."""

from __future__ import annotations

import sys
from typing import cast

import pytest
from tests.tools.benchmark import rows_of

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench/train"))

from _contest.contestant import Contestant, Failed
from _contest.network import Host
from _train import padded, slower
from _train.field import Job, Part, alone, matches
from _train.race import (
    Runner,
    against_the_bound,
    between_policies,
    check_losses,
    groups,
    least_bytes,
    rows,
    together,
)

BYTES = 67_149_824 * 4  # of the large model


def job(policy: str, contestant: str = "fsdp2", backend: str = "gloo", micro_steps: int = 1) -> Job:
    return Job(contestant, Part(policy, (backend,)), backend, micro_steps, "large", 4, 2)


class Answers:
    """A contestant of two ranks, one of its hosts, and the time of its steps."""

    def __init__(self, seconds: float, losses: list[float], parts: str) -> None:
        self._seconds, self._losses, self._sent, self._parts = seconds, losses, 0, parts

    def ask(self, line: str) -> list[str]:
        loss = self._losses.pop(0)
        self._sent += 1000
        return [
            f"10.5 {10 + self._seconds} {loss - 0.1} {self._parts}",
            f"10 {9 + self._seconds} {loss + 0.1} {self._parts}",
        ]

    def sent_bytes(self) -> int:
        return self._sent


def runner(job: Job, seconds: float, losses: list[float]) -> Runner:
    # The contestant without communication reports the seconds of a forward and of the update.
    answers = Answers(seconds, losses, "0.25 0.125" if job.contestant == "alone" else "")
    made = Runner(job, cast(Contestant, answers), cast(Host, answers))
    for _ in range(len(losses)):
        assert made.step() == pytest.approx(seconds)
    return made


def test_the_least_that_a_host_sends_follows_from_the_policy() -> None:
    assert least_bytes(job("ddp", micro_steps=4)) == 1.5 * BYTES
    assert least_bytes(job("mics", micro_steps=4)) == 1.5 * BYTES
    assert least_bytes(job("zero3")) == 2.25 * BYTES
    assert least_bytes(job("zero3", micro_steps=4)) == 9 * BYTES


def test_a_row_holds_us_against_the_same_over_gloo_or_else_the_fastest_there() -> None:
    runners = [
        runner(job("mics"), 10.0, [2, 1]),
        runner(job("mics", "other"), 8.0, [2, 1]),
        runner(job("mics", backend="lockstep"), 5.0, [2, 1]),
        runner(job("mics", "deepspeed_zero", "lockstep"), 4.0, [2, 1]),
        runner(alone(job("mics")), 1.0, [2, 9]),
    ]
    over_gloo, _, ours, mics = rows(runners, payload=1.5 * BYTES * 8 / 2)
    assert over_gloo["peer"] == over_gloo["step_s"] == 10
    assert "ours" not in over_gloo
    assert (ours["ours"], ours["peer_name"], ours["ratio"]) == (5, "fsdp2 over gloo", 2)
    assert (mics["peer_name"], mics["ratio"]) == ("other over gloo", 2)
    assert (mics["compute_s"], mics["wire_bound_s"]) == (1, pytest.approx(2))
    assert (mics["to_wire"], mics["of_limit"]) == (pytest.approx(2), pytest.approx(0.5))


def test_our_engine_is_held_against_all_others_and_its_policies_against_each_other() -> None:
    made = []
    for policy, seconds in (("mics", 2.0), ("zero3", 3.0)):
        runners = [
            runner(job(policy), 10.0, [2, 1]),
            runner(job(policy, backend="lockstep"), 5.0, [2, 1]),
            runner(job(policy, "engine", "lockstep"), seconds, [2, 1]),
            runner(alone(job(policy)), 1.0, [2, 9]),
        ]
        made += rows(runners, payload=1e9)
    ours = made[2]
    assert (ours["peer_name"], ours["ratio"], ours["bar"]) == ("fsdp2 over gloo", 5, 2.2)
    assert (ours["over_us_name"], ours["over_us_ratio"]) == ("fsdp2", 2.5)
    assert made[5]["bar"] == 1.6
    [between] = between_policies(made)
    assert (between["case"], between["ratio"]) == ("mics over zero3", pytest.approx(1.5))
    [bound] = against_the_bound(made)  # of the two policies that which communicates once
    wire = 1.5 * BYTES * 8 / 1e9
    assert (bound["policy"], bound["peer"]) == ("mics", pytest.approx(0.25 + wire + 0.125))
    assert bound["ratio"] == pytest.approx(bound["peer"] / 2)


def test_several_micro_steps_are_bound_by_the_computing_of_all_but_the_last() -> None:
    runners = [
        runner(job("mics", "engine", "lockstep", micro_steps=4), 6.0, [2, 1]),
        runner(alone(job("mics", micro_steps=4)), 2.125, [2, 9]),
    ]
    [bound] = against_the_bound(list(rows(runners, payload=1.5 * BYTES * 8)))
    assert bound["peer"] == pytest.approx(3 * 0.5 + 0.25 + 1 + 0.125)


def test_rows_are_chosen_by_patterns_and_left_out_by_those_with_a_minus() -> None:
    assert matches(job("mics"), ["ddp/*", "mics/*"])
    assert not matches(job("mics"), ["*", "-*/gloo/*"])
    on_slower = slower.jobs(24, 8, "medium", 4, 2)
    assert [each.name for each in on_slower] == [
        "mics/engine/lockstep/8/24x",
        "zero3/engine/lockstep/8/24x",
    ]
    assert slower.wanted([12, 24], ["*/8/24x"]) == [(24, 8)]
    assert slower.wanted([12, 24], ["mics/*/1"]) == []


def test_a_slower_wire_leaves_that_share_of_what_is_gathered_to_tcp() -> None:
    assert slower.wire(24e9, 12).payload == pytest.approx(2e9)
    runners = [
        *(
            runner(each, seconds, [2, 1])
            for each, seconds in zip(slower.jobs(12, 4, "medium", 4, 2), (2.0, 5.0), strict=True)
        ),
        runner(alone(job("mics")), 1.0, [2, 9]),
    ]
    made = slower.row(runners, slower.wire(24e9, 12), 24e9)
    assert (made["ratio"], made["bar"]) == (pytest.approx(2.5), 1.2)
    [best] = slower.best([made, made | {"ratio": 2.9}])
    assert (best["ratio"], best["bar"]) == (2.9, 2.8)


def test_no_more_are_held_at_a_time_than_fit_and_our_engine_takes_turns_with_all() -> None:
    peers = [job("mics"), job("mics", backend="lockstep"), job("mics", "other")]
    engine = job("mics", "engine", "lockstep")
    a_contestant = 8 * (int(2.5 * BYTES) + (150 << 20))
    assert groups([peers[0], engine, *peers[1:]], 5 * a_contestant) == [[engine, *peers]]
    assert groups([engine, *peers], 4 * a_contestant) == [[engine, *peers[:2]], [engine, peers[2]]]
    assert groups([engine, *peers], 0) == [[engine, each] for each in peers]
    assert groups([engine], 0) == [[engine]]


def test_of_a_job_that_was_started_again_all_steps_count_but_the_first_of_each_start() -> None:
    engine = job("mics", "engine", "lockstep")
    raced = [
        [runner(engine, 2.0, [2, 1]), runner(job("mics"), 4.0, [2, 1])],
        [runner(engine, 3.0, [2, 1]), runner(job("mics", "other"), 5.0, [2, 1])],
    ]
    merged = together(raced)
    assert [each.job.contestant for each in merged] == ["engine", "fsdp2", "other"]
    assert [each.seconds for each in merged] == [2.5, 4.0, 5.0]


def test_who_trains_something_else_ends_the_race() -> None:
    same = [runner(job("ddp"), 1.0, [2, 1]), runner(alone(job("ddp")), 1.0, [2, 5])]
    check_losses(same)
    wrong = runner(job("ddp", backend="lockstep"), 1.0, [2, 1.0001])
    with pytest.raises(Failed, match=r"ddp/fsdp2/lockstep/1 has a loss of 1.0001000 in step 1"):
        check_losses([*same, wrong])


def test_ddp_and_our_engine_take_part_and_have_the_loss_of_who_is_alone() -> None:
    words = ["--quick", "--rounds", "1", "--ranks-per-host", "1", "--rows", "ddp/*/lockstep/*"]
    engine, ddp, bound = rows_of("train", *words)
    made = [engine, ddp]
    assert [each["contestant"] for each in made] == ["engine", "ddp"]
    assert [(each["backend"], each["hosts"]) for each in made] == 2 * [("lockstep", 2)]
    assert ddp["ours"] > 0
    assert ddp["compute_s"] > 0
    assert ddp["sent"] >= 1
    assert (bound["case"], bound["ours"]) == ("against the bound", engine["step_s"])
    assert bound["peer"] > engine["wire_bound_s"]


def test_of_padded_steps_what_shows_and_the_memory_are_held_against_formulas() -> None:
    [mics, _] = padded.jobs("large", 4, 2, payload=1.5 * BYTES * 8, rows=["*padded"])
    assert (mics.name, mics.pad) == ("mics/engine/lockstep/1/padded", pytest.approx(1.5 / 8))
    assert padded.jobs("large", 4, 2, 1e9, ["*", "-*/padded"]) == []
    engine, idle = runner(mics, 3.1, [2, 1]), runner(alone(mics), 3.0, [2, 9])
    engine.memory = BYTES
    shown, memory = padded.rows(engine, idle, payload=1.5 * BYTES * 8)
    assert (shown["ours"], shown["peer"]) == (pytest.approx(0.1), pytest.approx(1.25 / 8))
    # Half of the parameters and gradients; five blocks under way, and one; the layers' inputs.
    assert memory["peer"] == pytest.approx((1.75 * BYTES + 4 * 4 * 8 * 9 * 1024) / 1e6)
    assert memory["ratio"] == pytest.approx(1.75, rel=0.01)


def test_our_engine_runs_padded_and_tells_its_memory() -> None:
    words = ["--small", "--hosts", "2", "--rounds", "1", "--rows", "mics/*/padded"]
    shown, memory = rows_of("train", *words)
    assert shown["step_s"] >= 6 * shown["pad_s"]  # four blocks, forward and backward
    assert 0 < memory["ours"] < 10 * memory["peer"]
