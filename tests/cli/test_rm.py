"""Removing ended runs, and what refuses it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_bad_input import refused

from tests.conftest import Cluster, wait_until


def run_folders(cluster: Cluster) -> list[Path]:
    return list(cluster.home.glob("runs/*/default/*")) + list(cluster.home.glob("runs/default/*"))


def test_an_ended_run_is_removed_with_everything_that_was_kept_of_it(cluster: Cluster) -> None:
    run = cluster.submit("--", "sh", "-c", 'echo hello; echo w > "$LOCKSTEP_CHECKPOINT_DIR/model"')
    cluster.ended(run)
    assert cluster.ok("logs", run) == "hello\n"
    assert len(run_folders(cluster)) == 1
    assert cluster.ok("rm", run, "--yes") == f"{run} removed\n"
    assert cluster.command("show", run).returncode == 2
    assert run not in cluster.ok("ps")
    wait_until("its folder is gone", lambda: not run_folders(cluster))
    assert cluster.submit("--", "true") != run


def test_checkpoints_in_a_folder_of_the_users_stay(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    run = cluster.submit("--checkpoint-folder", str(folder), "--", "true")
    cluster.ended(run)
    folder.mkdir(exist_ok=True)
    removed = json.loads(cluster.ok("rm", run, "--yes", "--json"))
    assert removed == {"run": run, "checkpoint_folder": str(folder)}
    assert folder.is_dir()


def test_a_run_that_goes_on_or_is_not_confirmed_is_not_removed(cluster: Cluster) -> None:
    run = cluster.submit("--", "sleep", "600")
    cluster.running_ranks(run)
    assert "add --yes" in refused(cluster, "rm", run)
    assert f"`lockstep stop {run} --wait`" in refused(cluster, "rm", run, "--yes")
    assert "there is no run default/99" in refused(cluster, "rm", "99", "--yes")
    cluster.ok("stop", run, "--wait")
    cluster.ok("rm", run, "--yes")
