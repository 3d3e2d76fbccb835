"""Runs that are preempted for others: evicted or moved; how they go on, and the messages."""

from __future__ import annotations

import sys
from typing import Any

from tests.conftest import Cluster, wait_until

# Reports that a checkpoint is complete, as lockstep.checkpoint() does, and waits.
SAVES = """
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.connect(os.environ['LOCKSTEP_REPORT'])
s.sendall(b'{"kind":"checkpoint","step":1,"path":"/c/1"}\\n')
time.sleep(100)
"""
SLEEP = ("--", "sleep", "100")


def causes(run: dict[str, Any]) -> list[str]:
    return [attempt["cause"] for attempt in run["attempts"]]


def host_of(run: dict[str, Any]) -> str:
    return str(run["attempts"][-1]["nodes"][0]["host"])


def test_a_preemptible_run_gives_its_devices_back_and_goes_on_later(idle: Cluster) -> None:
    idle.serve("1x1")
    first = idle.submit("--class", "preemptible", *SLEEP)
    idle.running_ranks(first)
    plan = idle.ok("run", "--plan", *SLEEP)
    assert "It would start at any moment, at the latest in " in plan
    assert f"{first} would be evicted from {host_of(idle.show(first))}, and go on later, " in plan
    assert causes(idle.show(first)) == ["none"], "a plan changes nothing"
    second = idle.submit("--", "true")
    assert idle.ended(second)["state"] == "succeeded"
    idle.running_ranks(first)
    shown = idle.show(first)
    assert causes(shown) == ["evicted", "none"] and shown["losses"] == 0
    assert shown["events"][0]["what"] == f"evicted to make room for {second}"
    assert shown["reason"] == f"evicted to make room for {second}; attempt 2 follows"


def test_a_run_that_writes_checkpoints_is_moved_so_that_a_larger_one_fits(idle: Cluster) -> None:
    idle.serve("2x2")
    runs = [idle.submit("--", sys.executable, "-c", SAVES) for _ in range(3)]
    wait_until(
        "their checkpoints are known", lambda: all(idle.show(run)["checkpoints"] for run in runs)
    )
    idle.ok("stop", runs[1])
    idle.ended(runs[1])
    before = host_of(idle.show(runs[0]))
    plan = idle.ok("run", "--plan", "-g", "2", *SLEEP)
    assert f"{runs[0]} would be moved from {before} to {host_of(idle.show(runs[2]))}" in plan
    large = idle.submit("-g", "2", *SLEEP)
    assert host_of(idle.wait_for(large, "running")) == before
    moved = idle.wait_for(runs[0], "running")
    assert causes(moved) == ["moved", "none"] and moved["moves"] == 1 and moved["losses"] == 0
    assert host_of(moved) == host_of(idle.show(runs[2]))
    assert moved["events"][0]["what"] == f"moved from host {before} to make room for {large}"
    assert "moves       1 of 3" in idle.ok("show", runs[0])
