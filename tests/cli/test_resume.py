"""Resuming a run that ended early, stopping with a grace period, and the display of a hang."""

from __future__ import annotations

from tests.conftest import Cluster, wait_until

FAILS_FIRST = 'test -e "$0" || { mkdir -p "$(dirname "$0")"; touch "$0"; exit 5; }; echo went on'


def test_a_failed_run_is_resumed_and_followed(cluster: Cluster) -> None:
    mark = str(cluster.home / "went" / "before")
    run = cluster.submit("--", "sh", "-c", FAILS_FIRST, mark)
    assert cluster.ended(run)["state"] == "failed"
    done = cluster.command("resume", run, "--follow")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "went on\n" and "succeeded" in done.stderr
    assert len(cluster.show(run)["attempts"]) == 2


def test_what_needs_no_resuming_is_refused(cluster: Cluster) -> None:
    run = cluster.submit("--", "true")
    cluster.ended(run)
    refused = cluster.command("resume", run)
    assert refused.returncode == 2 and "succeeded" in refused.stderr
    assert cluster.command("resume", "99").returncode == 2
    assert "one run" in cluster.command("resume", run, run, "--follow").stderr


def test_stopping_with_patience_returns_when_no_process_is_left(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "--", "sleep", "600")
    cluster.running_ranks(run)
    assert "cancelled: stopped: enough" in cluster.ok("stop", run, "--wait", "--reason", "enough")
    assert cluster.show(run)["state"] == "cancelled"


def test_show_tells_of_retries_and_of_a_rank_that_hangs(cluster: Cluster) -> None:
    script = "import lockstep, time; lockstep.progress(step=3, steps=9); time.sleep(600)"
    run = cluster.submit("--hang-after", "1s", "--", "python", "-c", script)
    wait_until(
        "the first attempt is found to hang",
        lambda: cluster.show(run)["attempts"][0]["cause"] == "hung",
    )
    words = cluster.ok("show", run)
    assert "hung" in words and "step 3" in words and "no progress since" in words
    assert "of 3 losses, 0 of 0 failures" in words
    cluster.ok("stop", run, "--wait")
