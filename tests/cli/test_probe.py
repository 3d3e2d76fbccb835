"""`lockstep probe` and `lockstep tune`: alone, and as ranks of two hosts over loopback."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE, PROGRAM

MAP = """# the lab's cluster
name: lab
pods:
  - leaves:
      - hosts:
          # the only one
          - id: a
            islands: [{devices: [{kind: core}]}]
"""
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCKSTEP_RENDEZVOUS", "LOCKSTEP_COSTS", "LOCKSTEP_HOST_ID")


def surroundings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_LAUNCHERS}


def typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words],
        env=surroundings(),
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def as_ranks(meeting: Path, hosts: list[str], *words: str) -> list[str]:
    """The output of each rank."""
    ranks = [
        subprocess.Popen(
            [PROGRAM, *words],
            env=surroundings()
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(hosts)),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
                "LOCKSTEP_ADDRESS": "127.0.0.1",
                "LOCKSTEP_HOST_ID": host,
                "LOCKSTEP_MEETING_FOLDER": str(meeting),
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank, host in enumerate(hosts)
    ]
    said = [rank.communicate(timeout=PATIENCE) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), said
    return [out for out, _ in said]


def assert_sane(level: dict[str, Any]) -> None:
    assert 0 < level["latency_us"] < 1e6
    assert 0 <= level["overhead_us"] <= level["latency_us"]
    assert 0.001 < level["gbit_per_second"] < 1e5


def test_a_probe_alone_measures_this_machine_in_ten_seconds() -> None:
    began = time.monotonic()
    done = typed("probe", "--json")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 10
    report = json.loads(done.stdout)
    assert_sane(report["measured"]["within_host"])
    assert report["measured"]["between_hosts"] is None
    assert report["measured"]["reduction_gbyte_per_second"] > 0.01


def test_a_probe_is_written_into_a_map_which_keeps_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MAP)
    for _ in range(2):
        done = typed("probe", "--write", file)
        assert done.returncode == 0, done.stderr
        assert f"written to {file}\n" in done.stderr
        written = file.read_text()
        assert written.startswith(MAP) and written.count("measured:") == 1
    shown = typed("map", "--file", file).stdout
    assert "measured: within a host" in shown
    assert json.loads(typed("map", "--file", file, "--json").stdout)["measured"]["within_host"]


def test_what_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    done = typed("probe", "--write", tmp_path / "none.yaml")
    assert done.returncode == 2 and "none.yaml" in done.stderr
    file = tmp_path / "wrong.yaml"
    file.write_text("name: lab\n")
    done = typed("probe", "--write", file)
    assert done.returncode == 2 and "wrong.yaml:1: the field 'pods'" in done.stderr


def test_ranks_of_two_hosts_measure_the_way_between_them(tmp_path: Path) -> None:
    first, *others = as_ranks(tmp_path, ["a", "a", "b"], "probe", "--json")
    assert others == ["", ""]
    report = json.loads(first)
    assert (report["hosts"], report["ranks"]) == (2, 3)
    assert_sane(report["measured"]["within_host"])
    assert_sane(report["measured"]["between_hosts"])
    assert report["measured"]["fabric"] == "tcp over lo"


@pytest.mark.parametrize("hosts", [["a", "b", "c"], ["a", "b", "c", "c", "d", "e"]])
def test_of_three_hosts_and_more_several_measure_at_once(tmp_path: Path, hosts: list[str]) -> None:
    first, *others = as_ranks(tmp_path, hosts, "probe", "--json")
    assert not any(others)
    report = json.loads(first)
    assert (report["hosts"], report["ranks"]) == (len(set(hosts)), len(hosts))
    level = report["measured"]["between_hosts"]
    assert_sane(level)
    assert level["overhead_us"] <= level["latency_us"] / 2 + 1e-9


def test_ranks_of_two_hosts_compare_the_algorithms(tmp_path: Path) -> None:
    sizes = ["--bytes", "1KiB,256KiB"]
    first, second = as_ranks(tmp_path, ["a", "b"], "tune", *sizes, "--json")
    assert second == ""
    report = json.loads(first)
    assert [size["bytes"] for size in report["sizes"]] == [1024, 256 * 1024]
    for size in report["sizes"]:
        assert len(size["plans"]) >= 3
        assert sum(plan["chosen"] for plan in size["plans"]) == 1
        assert all(plan["measured_us"] > 0 and plan["predicted_us"] > 0 for plan in size["plans"])
        assert size["ratio"] >= 1
    table = as_ranks(tmp_path, ["a", "b"], "tune", "--bytes", "4KiB", "--operation", "broadcast")[0]
    assert table.startswith("broadcast, 2 ranks on 2 hosts\n") and "x the best" in table


def test_what_was_tuned_is_written_into_a_map_and_taken_from_it(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MAP)
    sizes = ["--bytes", "64KiB,1KiB"]
    for operation in ("all_reduce", "broadcast", "all_reduce"):
        words = ["tune", "--operation", operation, *sizes, "--write", str(file)]
        table = as_ranks(tmp_path, ["a", "b"], *words)[0]
        assert table.startswith(f"{operation}, 2 ranks on 2 hosts\n")
    written = file.read_text()
    assert written.startswith(MAP) and written.count("tuned:") == 1
    probed = typed("probe", "--write", file)
    assert probed.returncode == 0, probed.stderr
    measured = json.loads(typed("map", "--file", file, "--json").stdout)["measured"]
    assert measured["within_host"], "probed, and what was tuned stays"
    by_operation: dict[str, list[dict[str, Any]]] = {"all_reduce": [], "broadcast": []}
    for each in measured["tuned"]:
        assert (each["hosts"], each["ranks"]) == (2, 2)
        by_operation[each["operation"]].append(each)
    for operation, ranges in by_operation.items():
        assert ranges[-1]["up_to"] == "64 KiB"
        shown = typed("tune", "--map", file, "--operation", operation, *sizes, "--json").stdout
        large, small = json.loads(shown)["sizes"]
        assert chosen_of(small) == ranges[0]["plan"]
        assert chosen_of(large) == ranges[-1]["plan"]


def chosen_of(size: dict[str, Any]) -> str:
    [chosen] = (plan["plan"] for plan in size["plans"] if plan["chosen"])
    assert isinstance(chosen, str)
    return chosen


def test_words_of_a_tuning_are_what_ranks_take_as_their_costs(tmp_path: Path) -> None:
    command = ["tune", "--bytes", "1KiB", "--operation"]
    words, nothing = as_ranks(tmp_path, ["a", "b"], *command, "all_reduce", "--words")
    assert nothing == ""
    times, tuned = words.strip().split("; ")
    assert len(times.split()) == 7 and tuned.startswith("all_reduce 2 2 1024 ")
    every = as_ranks(tmp_path, ["a", "b"], *command, "all", "--json")[0]
    assert [each["operation"] for each in json.loads(every)][:2] == ["all_reduce", "reduce_scatter"]


def test_alone_tune_predicts_and_says_so(tmp_path: Path) -> None:
    done = typed("tune", "--hosts", "64", "--ranks", "8", "--json")
    assert done.returncode == 0 and "only predicted, by assumed costs" in done.stderr
    sizes = json.loads(done.stdout)["sizes"]
    assert all(plan["measured_us"] is None for size in sizes for plan in size["plans"])
    file = tmp_path / "cluster.yaml"
    slow = "{latency_us: 5000, gbit_per_second: 1}"
    file.write_text(f"measured: {{between_hosts: {slow}}}\n{MAP}")
    done = typed("tune", "--map", file, "--bytes", "64B", "--json")
    assert min(p["predicted_us"] for p in json.loads(done.stdout)["sizes"][0]["plans"]) >= 5000


def test_wrong_arguments_of_tune_are_refused_by_name() -> None:
    for words, expected in (
        (("--operation", "gather"), "--operation gather"),
        (("--bytes", "17"), "--bytes 17"),
        (("--bytes", "much"), "--bytes: 'much' is not a size"),
        (("--bytes", ""), "--bytes"),
        (("--hosts", "1"), "--hosts 1"),
        (("--hosts", "0"), "--hosts"),
        (("--map", "/none.yaml"), "/none.yaml"),
        (("--write", "/none.yaml"), "/none.yaml"),
        (("--words",), "alone nothing is measured"),
    ):
        done = typed("tune", *words)
        assert done.returncode == 2, words
        assert expected in done.stderr and done.stderr.count("\n") == 1, done.stderr
