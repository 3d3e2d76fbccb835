"""A run starts no later than `why`, `queue` and `run --plan` say, and all three say the same."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.conftest import Cluster

SLEEP = ("--", "sleep", "100")


def waiting(cluster: Cluster) -> dict[str, Any]:
    rows = json.loads(cluster.ok("queue", "--json"))["waiting"]
    return {row["run"]: row for row in rows}


def test_a_run_that_takes_part_of_each_host_counts_for_the_next(cluster: Cluster) -> None:
    """Two hosts of two devices: the third run needs both devices of one host, so it waits for the
    first and for the second, which has one device on each."""
    base = cluster.submit("-n", "2", "-g", "2", "--timeout", "20m", *SLEEP)
    second = cluster.submit("-n", "2", "-g", "1", "--timeout", "40m", *SLEEP)
    plan = json.loads(cluster.ok("run", "--plan", "--json", "-g", "2", *SLEEP))
    third = cluster.submit("-g", "2", *SLEEP)
    rows = waiting(cluster)
    start = datetime.fromisoformat(
        json.loads(cluster.ok("queue", "--json"))["allocations"][0]["since"]
    )

    def minutes(moment: str) -> float:
        return (datetime.fromisoformat(moment) - start).total_seconds() / 60

    assert 20 <= minutes(rows[second]["expected_start"]) < 21
    assert 60 <= minutes(rows[third]["expected_start"]) < 61
    # Each run before it may take 16 minutes to start and to leave.
    assert 60 <= minutes(rows[third]["latest_start"]) < 60 + 2 * 16 + 1
    report = json.loads(cluster.ok("why", third, "--json"))
    for name in ("expected_start", "latest_start"):
        assert report[name] == rows[third][name] == cluster.show(third)[name]
        assert abs(minutes(plan[name]) - minutes(rows[third][name])) < 1
    assert [run["run"] for run in report["before"]] == [second]
    drawn = cluster.ok("why", third).splitlines()
    assert [line.split()[0] for line in drawn[3:]] == [base, second, third]


def test_many_runs_before_it_are_counted(cluster: Cluster) -> None:
    cluster.submit("-n", "2", "-g", "2", *SLEEP)
    for _ in range(10):
        last = cluster.submit("-n", "2", "-g", "2", *SLEEP)
    assert "and 1 more" in cluster.ok("why", last)


def test_why_and_queue_agree_on_a_run_that_starts_later(cluster: Cluster) -> None:
    run = cluster.submit("--not-before", "2h", *SLEEP)
    row = waiting(cluster)[run]
    report = json.loads(cluster.ok("why", run, "--json"))
    assert report["expected_start"] == row["expected_start"]
    assert report["latest_start"] is row["latest_start"] is None
    assert "It starts in about 2h" in report["sentence"]


def test_a_host_that_is_cordoned_is_named_with_its_reason(cluster: Cluster) -> None:
    names = [host["id"] for host in json.loads(cluster.ok("host", "ls", "--json"))["hosts"]]
    cluster.ok("host", "cordon", *names, "--reason", "its fan is loud")
    run = cluster.submit(*SLEEP)
    reason = cluster.show(run)["reason"]
    assert reason.startswith(f"needs 1 host with 1 free device: {names[0]} is cordoned (by ")
    assert reason.endswith(": its fan is loud), 1 more host is cordoned or drained, too")
