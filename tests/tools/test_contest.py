"""The contest of collectives: its turns, its rows, and that no wrong or lost rank is missed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.tools.benchmark import rows_of

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))

from _contest.between_hosts import Layout, rows
from _contest.choices import AlgorithmSide, compare_plans
from _contest.contestant import Contestant, Entry, Failed, Work
from _contest.network import RATES, Network, Unavailable
from _contest.rounds import Calibration, Pace, best_half, calibrate, take_turns
from _contest.rows import bar, row

MIB = 1 << 20
WORK = Work("all_reduce", 64)
PACE = Pace(rounds=3, seconds=0.03)


class Metronome:
    """A contestant that always takes the same time, and records its calls."""

    def __init__(self, name: str, seconds: float, asked: list[str] | None = None) -> None:
        self.name = name
        self.seconds = seconds
        self.asked = [] if asked is None else asked

    def check(self, work: Work) -> None:
        self.asked.append(f"{self.name} check")

    def run(self, work: Work, calls: int) -> float:
        self.asked.append(f"{self.name} {calls}")
        return self.seconds


def test_of_the_rounds_the_median_of_the_better_half_counts() -> None:
    assert best_half([9, 1, 8, 2, 3]) == 2
    assert best_half([4, 2, 9, 9]) == 3
    assert best_half([7]) == 7


@pytest.mark.parametrize(("seconds", "calls"), [(1e-3, 30), (1e-6, 30_000), (0.5, 1)])
def test_a_turn_is_as_many_calls_as_fill_its_time(seconds: float, calls: int) -> None:
    assert calibrate(Metronome("a", seconds), WORK, 0.03) == Calibration(calls, seconds)


def test_contestants_take_turns_that_begin_with_another_each_time() -> None:
    asked: list[str] = []
    sides = [Metronome(name, 0.01, asked) for name in "abc"]
    take_turns(sides, WORK, PACE, print)
    assert asked[-9:] == [f"{name} 3" for name in "abcbcacab"]
    assert [f"{name} check" for name in "abc"] == [each for each in asked if "check" in each]


def test_who_takes_more_than_a_second_for_a_call_is_left_out_with_a_word() -> None:
    said: list[str] = []
    sides = [Metronome("quick", 0.01), Metronome("slow", 1.5)]
    assert take_turns(sides, WORK, PACE, said.append) == {"quick": 0.01}
    assert said == ["slow is left out of all_reduce 64: one call takes more than 1 s"]


def test_who_is_hopelessly_slow_at_a_first_look_takes_no_turns() -> None:
    asked: list[str] = []
    sides = [Metronome("quick", 0.1, asked), Metronome("slow", 0.3, asked)]
    times = take_turns(sides, WORK, Pace(3, 0.1, slow_ratio_max=2.5), print)
    assert times == {"quick": 0.1, "slow": 0.3}
    assert asked == ["quick check", "quick 1", "slow check", "slow 1", *["quick 1"] * 3]


def test_a_row_holds_us_against_the_fastest_peer_and_names_the_others() -> None:
    times = {"staged": 2e-6, "open_mpi": 5e-6, "gloo": 4e-6, "memory": 1e-6}
    made = row("allreduce", Work("all_reduce", 64 * MIB), 4, "staged", times)
    assert (made["peer_name"], made["peer"], made["ratio"]) == ("gloo", 4.0, 2.0)
    assert (made["open_mpi"], made["gloo"]) == (5.0, 4.0)
    assert (made["limit"], made["of_limit"], made["bar"]) == (1.0, 0.5, 2.0)
    assert "mpich" not in made


def test_a_row_without_peers_has_no_ratio() -> None:
    made = row("allreduce", WORK, 2, "staged", {"staged": 2e-6})
    assert made.keys().isdisjoint({"peer", "ratio", "limit"})


@pytest.mark.parametrize(
    ("path", "ranks", "size", "expected"),
    [
        ("zero-copy", 2, 8, 1.0),
        ("zero-copy", 4, 64 << 10, 2.0),
        ("zero-copy", 2, 4 * MIB, 4.0),
        ("staged", 2, 64 * MIB, 1.0),
        ("staged", 4, MIB, 1.0),
        ("staged", 4, 4 * MIB, 2.0),
    ],
)
def test_the_bar_rises_with_what_the_path_saves(
    path: str, ranks: int, size: int, expected: float
) -> None:
    assert bar(path, ranks, size) == expected


class Wires:
    """The part of a network that rows need."""

    def __init__(self, hosts: int) -> None:
        self.hosts = [object()] * hosts
        self.rate = RATES["1gbit"]


def wire_rows(hosts: int, ranks_a_host: int, size: int, goodput: float | None) -> list[Any]:
    layout = Layout(cast(Network, Wires(hosts)), ranks_a_host)
    times = {"zero-copy": 0.1, "gloo": 0.3, "open_mpi": 0.2}
    if ranks_a_host > 1:
        times["flat_ring"] = 0.15
    sent = {"zero-copy": size * 1.05}
    return list(rows(layout, Work("all_reduce", size), "zero-copy", times, sent, goodput))


def test_a_short_call_between_hosts_is_held_against_the_fastest_peer_and_against_gloo() -> None:
    against_all, against_gloo = wire_rows(2, 1, 8, None)
    assert (against_all["peer_name"], against_all["ratio"]) == ("open_mpi", 2)
    assert against_all["bar"] == 0.98
    assert (against_gloo["ratio"], against_gloo["bar"]) == (pytest.approx(3), 2)
    assert "limit" not in against_all


def test_a_long_call_is_held_against_what_the_wire_carries() -> None:
    against_all, on_the_wire = wire_rows(4, 1, 8 * 10**6 * 4, 4.8e9)
    # Each of four hosts sends 3/2 of 32 MB: 384 Mbit.
    assert against_all["limit"] == pytest.approx(80_000)
    assert on_the_wire["ours"] == pytest.approx(3840)
    assert (on_the_wire["ratio"], on_the_wire["bar"]) == (pytest.approx(0.8), 0.98)


def test_ranks_that_share_a_host_are_held_against_gloo_in_long_calls_only() -> None:
    assert [each["case"] for each in wire_rows(2, 2, 64 * MIB, 1e9)] == [
        "all_reduce",
        "against gloo",
        "against the flat ring",
        "on the wire",
    ]
    assert [each["case"] for each in wire_rows(2, 2, MIB, 1e9)] == [
        "all_reduce",
        "against the flat ring",
    ]


def test_hosts_that_are_namespaces_reach_each_other_at_the_rate_and_leave_nothing() -> None:
    try:
        with Network(2, RATES["1gbit"]) as network:
            first, second = network.hosts
            holders = [host.pid for host in network.hosts]
            shown = first.run("ip", "route", "get", second.address)
            assert "dev eth0 src 10.77.0.1" in shown
            assert "rate 1Gbit" in first.run("tc", "qdisc", "show", "dev", "eth0")
            assert first.sent_bytes() >= 0
    except Unavailable as why:
        pytest.skip(str(why))
    assert not any(Path(f"/proc/{pid}").exists() for pid in holders)


def test_the_contest_between_hosts_runs_and_is_right() -> None:
    words = ["--quick", "--peers", "none", "--bytes", "8,64KiB", "--ranks-per-host", "2"]
    made = rows_of("wire", *words)
    assert [(each["case"], each["bytes"], each["hosts"], each["ranks"]) for each in made] == [
        ("all_reduce", 8, 2, 4),
        ("against the flat ring", 8, 2, 4),
        ("all_reduce", 64 << 10, 2, 4),
        ("against the flat ring", 64 << 10, 2, 4),
        ("payload on each host's wire", 64 << 10, 2, 4),
    ]
    assert made[-1]["ours"] == 64 << 10, "of each of two hosts that first add up"


def test_the_choice_is_held_against_every_plan() -> None:
    made = rows_of("choice", "--quick", "--bytes", "1KiB", "--ranks-per-host", "2")
    assert [each["case"] for each in made] == ["all_reduce", "all_reduce, tuned"]
    algorithms = ("flat", "ring", "recursive_doubling", "halving_doubling", "double_tree")
    plans = {f"{name}{among}" for name in algorithms for among in ("", ",hierarchical")}
    for held in made:
        assert (held["bytes"], held["hosts"], held["ranks"]) == (1024, 2, 4)
        assert plans & held.keys() == plans
        assert held["ours"] == pytest.approx(held[held["chosen"]])
        assert held["peer"] == held[held["peer_name"]] == min(held[plan] for plan in plans)
        assert 0 < held["ratio"] <= 1 and 0 < held["same"] <= 1 and held["starts"] == 1


def test_plans_are_compared_within_a_start_of_the_ranks_only() -> None:
    slow_start = {"ring": 30.0, "ring#again": 33.0, "tree": 24.0}
    fast_start = {"ring": 15.0, "ring#again": 15.0, "tree": 16.0}
    found = compare_plans("ring", "ring", [slow_start, fast_start, slow_start])
    assert (found.best, found.ratio, found.spread) == ("tree", 0.8, 2.0)
    assert found.same == pytest.approx(30 / 33)
    assert found.seconds == {"ring": 30.0, "tree": pytest.approx(24.0)}
    assert compare_plans("tree", "ring", [slow_start]).ratio == 1.0


def test_who_was_left_out_of_a_start_is_left_out() -> None:
    whole = {"ring": 2.0, "ring#again": 2.0, "tree": 1.0}
    assert compare_plans("ring", "ring", [whole, {"ring": 2.0, "ring#again": 2.0}]).best == "ring"


# Two ranks that report the arguments about themselves, and answer as the last one does.
FAKE = """
import os, socket, sys
rank = 0 if os.fork() else 1
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[2])
stream = connection.makefile("rw")
print("rank", rank, file=stream, flush=True)
for line in stream:
    if sys.argv[1] == "dies" and rank == 1:
        sys.exit("out of luck")
    answers = {"check": sys.argv[1] if rank == 1 else "right", "run": f"{rank + 10} {rank + 13}"}
    answers["take"] = "taken" if line.split()[1] == "ring" else "never heard of it"
    print(answers[line.split()[0]], file=stream, flush=True)
if rank == 0:
    os.wait()
"""


def fake(answer: str, folder: Path) -> Contestant:
    return Contestant(Entry("fake", [sys.executable, "-c", FAKE, answer]), 2, folder)


def test_a_turn_lasts_from_the_first_ranks_begin_to_the_last_ones_end(tmp_path: Path) -> None:
    with fake("right", tmp_path) as contestant:
        contestant.check(WORK)
        assert contestant.run(WORK, 4) == 1.0


def test_a_wrong_result_on_one_rank_fails_the_contest_by_name(tmp_path: Path) -> None:
    expected = "fake is wrong in all_reduce 64 on rank 1: element 3 is 1"
    with fake("element 3 is 1", tmp_path) as contestant, pytest.raises(Failed, match=expected):
        contestant.check(WORK)


def test_a_way_that_ranks_do_not_have_fails_the_contest_by_name(tmp_path: Path) -> None:
    with fake("right", tmp_path) as contestant:
        assert AlgorithmSide(contestant, "ring").run(WORK, 4) == 1.0
        with pytest.raises(Failed, match="fake cannot take the way star on rank 0: never heard"):
            AlgorithmSide(contestant, "star").check(WORK)


def test_a_rank_that_dies_fails_the_contest_with_its_last_words(tmp_path: Path) -> None:
    with (
        fake("dies", tmp_path) as contestant,
        pytest.raises(Failed, match=r"fake hung up.*\n.*luck"),
    ):
        contestant.check(WORK)


# Two forked ranks like ours; one of them is killed, as the kernel does when memory is exhausted.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from _contest.fork_ranks import fork_ranks, obey
def answer(line):
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(fork_ranks(2, [], lambda rank, store: obey(rank, sys.argv[2], answer)))
"""


def test_a_rank_that_was_killed_is_named_with_the_signal(tmp_path: Path) -> None:
    entry = Entry("fake", [sys.executable, "-c", KILLED, str(ROOT / "bench")])
    expected = r"(?s)fake hung up; it said:.*rank [01] was killed by SIGKILL: .* too little memory"
    with Contestant(entry, 2, tmp_path) as contestant, pytest.raises(Failed, match=expected):
        contestant.ask("step")


def test_a_contestant_that_does_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"has 0 of 2 ranks at its start; it said:\nno network"):
        Contestant(Entry("fake", [sys.executable, "-c", "exit('no network')"]), 2, tmp_path)
    with pytest.raises(Failed, match=r"cannot be started: .*absent"):
        Contestant(Entry("absent", [str(tmp_path / "absent")]), 2, tmp_path)


def test_our_own_ranks_take_part_on_both_paths_and_are_right() -> None:
    words = ["--quick", "--peers", "none", "--bytes", "8,64KiB,1MiB"]
    made = rows_of("latency", *words)
    assert [(each["case"], each["bytes"], each["path"]) for each in made] == [
        (collective, size, path)
        for collective in ("all_reduce", "reduce_scatter", "all_gather")
        for size in (8, 64 << 10, MIB)
        for path in ("zero-copy", "staged")
    ]
    assert all(each["ours"] > 0 and each["ranks"] == 2 for each in made)
