"""Time limits, typed as a user: defaults by class, signals before the limit, extensions, cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster, wait_until


def shown(cluster: Cluster, run: str) -> Any:
    return json.loads(cluster.ok("show", run, "--json"))


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("extend", "demo/1"), ["DURATION is required"]),
        (("extend", "demo/1", "soon"), ["soon", "30m"]),
        (("extend", "nonsense", "1h"), ["nonsense"]),
        (("run", "--signal", "KILL@5m", "--", "true"), ["signal: 'KILL@5m' names none of HUP"]),
        (("run", "--signal", "USR1@soon", "--", "true"), ["has no time after '@'"]),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    words: tuple[str, ...], parts: list[str], cluster: Cluster
) -> None:
    line = refused(cluster, *words)
    assert all(part in line for part in parts), line


def test_a_run_without_a_limit_gets_that_of_its_class(idle: Cluster) -> None:
    idle.serve("2x2", "--set", "timeout_normal=12h", "--set", "timeout_debug=10m")
    cluster = idle
    normal = cluster.submit("--", "sleep", "1000")
    debug = cluster.submit("--class", "debug", "--", "sleep", "1000")
    assert shown(cluster, normal)["time_limit"] == "12h"
    assert shown(cluster, debug)["time_limit"] == "10m"
    assert "of at most 12h" in cluster.ok("show", normal)


def test_an_extended_run_goes_on_after_its_first_limit(cluster: Cluster) -> None:
    run = cluster.submit("--timeout", "4s", "--", "sh", "-c", "sleep 6; echo done")
    wait_until("it runs", lambda: shown(cluster, run)["state"] == "running")
    assert cluster.ok("extend", run, "1m").strip() == f"{run} may run for 1m 4s"
    wait_until("it succeeds", lambda: shown(cluster, run)["state"] == "succeeded")
    assert shown(cluster, run)["running_seconds"] > 4
    assert "has ended, it is succeeded" in refused(cluster, "extend", run, "1m")
    assert "time limit 1m 4s, it was 4s" in cluster.ok("show", run)


def test_ranks_get_their_signal_before_the_limit(cluster: Cluster) -> None:
    program = "trap 'echo saved; exit 0' USR1; echo waits; while :; do sleep 0.05; done"
    run = cluster.submit("--timeout", "1m", "--signal", "USR1@57s", "--", "bash", "-c", program)
    wait_until("it succeeds", lambda: shown(cluster, run)["state"] == "succeeded")
    assert "saved" in cluster.ok("logs", run)


def test_the_plan_and_the_run_have_their_cost(cluster: Cluster) -> None:
    cluster.ok("project", "add", "demo")
    cluster.ok("budget", "grant", "demo", "100", "--until", "30d")
    words = ("--project", "demo", "-g", "2", "--timeout", "10m", "--", "sleep", "1000")
    plan = cluster.ok("run", "--plan", *words)
    assert "It would cost at most 20 device-minutes, and demo has 100" in plan
    run = cluster.submit(*words)
    wait_until("it runs", lambda: shown(cluster, run)["state"] == "running")
    assert ", 20 at its time limit" in cluster.ok("show", run)
    cluster.ok("stop", run)
    wait_until("it is cancelled", lambda: shown(cluster, run)["state"] == "cancelled")
    cost = shown(cluster, run)["cost"]
    assert 0 <= cost["so_far_minutes"] == cost["at_limit_minutes"] < 5
