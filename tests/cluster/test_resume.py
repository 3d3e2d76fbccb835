"""`lockstep resume`: a run that ended badly goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cluster, wait_until

# Counts to five and keeps its count; then the first attempt ends as its argument says.
COUNTING = """
import os, pathlib, sys, time
kept = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"]) / "count"
count = int(kept.read_text()) if kept.exists() else 0
print("from", count, flush=True)
first = os.environ["LOCKSTEP_EPOCH"] == "1"
for count in range(count + 1, 6 if first else 11):
    kept.write_text(str(count))
print("at", count, flush=True)
if first and sys.argv[1] == "fail":
    sys.exit(3)
time.sleep(1000 if first else 0)
"""


def end_badly(cluster: Cluster, folder: Path, how: str) -> str:
    program = folder / "count.py"
    program.write_text(COUNTING)
    run = cluster.submit("--timeout", "6s" if how == "timed_out" else "10m", "--",
                         "python", str(program), "fail" if how == "failed" else "wait")  # fmt: skip
    if how == "cancelled":
        wait_until("it has counted", lambda: "at 5" in cluster.logs(run))
        cluster.ok("stop", run)
    assert cluster.ended(run)["state"] == how
    return run


@pytest.mark.parametrize("how", ["failed", "timed_out", "cancelled"])
def test_a_run_that_ended_badly_goes_on_from_its_checkpoint(
    cluster: Cluster, tmp_path: Path, how: str
) -> None:
    run = end_badly(cluster, tmp_path, how)
    cluster.ok("resume", run)
    view = cluster.ended(run)
    assert view["state"] == "succeeded"
    assert [attempt["epoch"] for attempt in view["attempts"]] == [1, 2]
    assert cluster.logs(run) == ["from 0", "at 5", "from 5", "at 10"]


def test_what_succeeded_or_still_runs_is_not_resumed(cluster: Cluster) -> None:
    done = cluster.submit("--", "true")
    cluster.ended(done)
    refused = cluster.command("resume", done)
    assert refused.returncode == 2 and "succeeded" in refused.stderr
    assert len(cluster.show(done)["attempts"]) == 1

    running = cluster.submit("--", "sleep", "1000")
    cluster.running_ranks(running)
    assert cluster.command("resume", running).returncode == 2
    assert len(cluster.show(running)["attempts"]) == 1


def test_a_resumed_run_survives_the_daemon(cluster: Cluster, tmp_path: Path) -> None:
    """Queued again behind another run, with the daemon restarted: the state is kept."""
    run = end_badly(cluster, tmp_path, "failed")
    blocker = cluster.submit("-n", "2", "-g", "2", "--", "sleep", "1000")
    cluster.running_ranks(blocker)
    cluster.ok("resume", run)
    assert blocker in cluster.wait_for(run, "queued")["reason"]
    cluster.ok("serve", "--stop")
    cluster.serve()
    cluster.ok("stop", blocker)
    assert cluster.ended(run)["state"] == "succeeded"
