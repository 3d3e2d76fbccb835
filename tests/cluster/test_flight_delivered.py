"""`lockstep flight` of runs whose records the daemon does not see, as on other machines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.conftest import PROGRAM, Cluster, wait_until


def submit(cluster: Cluster, folder: Path, elsewhere: Path) -> str:
    """Two nodes whose ranks run some collectives, and stay."""
    script = f"{PROGRAM} probe > {folder}/probe-$RANK && touch {folder}/met-$RANK && sleep 1000"
    named = f"LOCKSTEP_FLIGHT_DIR={elsewhere}"
    return cluster.submit("-n", "2", "--env", named, "--", "sh", "-c", script)


def groups(cluster: Cluster, run: str) -> list[dict[str, Any]]:
    report: dict[str, Any] = json.loads(cluster.ok("flight", run, "--json", "--last", "5"))
    assert report["refused"] == []
    found: list[dict[str, Any]] = report["groups"]
    return found


def test_agents_deliver_what_their_ranks_recorded_while_they_run_and_at_the_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    run = submit(cluster, tmp_path, elsewhere)
    wait_until("all have met", lambda: len(list(tmp_path.glob("met-*"))) == 2)
    during = groups(cluster, run)
    assert during
    for group in during:
        assert [rank["rank"] for rank in group["ranks"]] == [0, 1]
        assert len({rank["host"] for rank in group["ranks"]}) == 2
        assert group["collectives"]

    cluster.ok("stop", run)
    cluster.ended(run)
    shutil.rmtree(elsewhere)  # the machines are gone
    assert groups(cluster, run) == during
    trace = tmp_path / "trace.json"
    cluster.ok("flight", run, "--trace", str(trace))
    assert {event["pid"] for event in json.loads(trace.read_text())["traceEvents"]} == {0, 1}


def test_of_a_run_without_collectives_it_says_so_in_a_line(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "--", "true")
    cluster.ended(run)
    done = cluster.command("flight", run)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "left no records of collectives" in done.stderr
