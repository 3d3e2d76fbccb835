"""Personal buckets, typed as the user of a personal project."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster


@pytest.fixture
def with_buckets(idle: Cluster) -> Cluster:
    settings = ("personal_refill=60", "personal_cap=60", "personal_timeout_max=40m")
    idle.serve("2x2", *(word for each in settings for word in ("--set", each)))
    return idle


def own_project(cluster: Cluster) -> str:
    return str(json.loads(cluster.ok("whoami", "--json"))["user"])


def bucket_of(cluster: Cluster, project: str) -> Any:
    (found,) = json.loads(cluster.ok("budget", "show", project, "--json"))["buckets"]
    return found


def test_a_run_of_the_own_project_uses_the_bucket_and_waits_when_it_is_empty(
    with_buckets: Cluster,
) -> None:
    cluster = with_buckets
    me = own_project(cluster)
    assert getpass.getuser().lower().startswith(me[:1])
    assert bucket_of(cluster, me)["available_minutes"] == 60
    first = cluster.submit("--project", me, "--timeout", "40m", "--", "sleep", "1000")
    assert bucket_of(cluster, me)["held_minutes"] == 40
    second = cluster.submit("--project", me, "--timeout", "30m", "--", "true")
    reason = cluster.show(second)["reason"]
    assert f"needs 30 device-minutes of the personal bucket of {me}" in reason
    assert "which has enough from 20" in reason and "Z on" in reason
    assert "personal bucket" in cluster.ok("why", second)
    table = cluster.ok("budget", "show")
    assert "PERSONAL PROJECT" in table and me in table
    cluster.ok("stop", first, "--wait")
    assert cluster.ended(second)["state"] == "succeeded"
    bucket = bucket_of(cluster, me)
    assert bucket["held_minutes"] == 0 and 0 < bucket["spent_minutes"] < 1
    assert bucket["cap_minutes"] == 60 and bucket["minutes_per_hour"] == 60


def test_a_run_that_does_not_fit_is_refused_in_one_line(with_buckets: Cluster) -> None:
    cluster = with_buckets
    me = own_project(cluster)
    for words, part in (
        (("--nodes", "2", "--timeout", "5m"), "runs on one node at a time, not on 2"),
        (("--timeout", "41m"), "has runs of at most 40m, not 41m"),
        (("--devices", "2", "--timeout", "40m"), "has at most 60 device-minutes"),
    ):
        line = refused(cluster, "run", "--detach", "--project", me, *words, "--", "true")
        assert part in line and "name a shared project with `--project`" in line, line
    assert json.loads(cluster.ok("ps", "--json"))["runs"] == []
    cluster.ok("project", "add", "shared")
    run = cluster.submit("--project", "shared", "--timeout", "5h", "--", "true")
    assert cluster.ended(run)["state"] == "succeeded"


def test_a_bucket_survives_its_daemon(with_buckets: Cluster) -> None:
    cluster = with_buckets
    me = own_project(cluster)
    run = cluster.submit("--project", me, "--timeout", "40m", "--", "sleep", "1000")
    cluster.running_ranks(run)
    cluster.kill_daemon()
    assert bucket_of(cluster, me)["held_minutes"] == 40
    cluster.ok("stop", run, "--wait")
    assert bucket_of(cluster, me)["held_minutes"] == 0
