"""`lockstep artifacts`, `lockstep.log_artifact` in ranks, and artifacts by the Python client."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import lockstep
from tests.conftest import BUILD, Cluster

LOGS = """
import os, pathlib, lockstep
folder = pathlib.Path(os.environ["FOLDER"])
lockstep.log_artifact(folder / "plots", "all/plots")
lockstep.log_artifact(folder / "big.bin")
try:
    lockstep.log_artifact(folder / "big.bin", "../x")
except lockstep.DaemonError as refused:
    print("refused:", refused.code)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "plots" / "deep").mkdir(parents=True)
    (folder / "plots" / "a b+é.txt").write_text("one")
    (folder / "plots" / "deep" / "c.txt").write_text("two")
    (folder / "big.bin").write_bytes(os.urandom(5 << 20))
    return folder


@pytest.fixture
def run(cluster: Cluster, source: Path) -> str:
    """An ended run that has logged the files of `source`."""
    variables = ("--env", f"FOLDER={source}", "--env", f"PYTHONPATH={BUILD / 'python'}")
    run = cluster.submit("--no-diff", *variables, "--", sys.executable, "-c", LOGS)
    assert cluster.ended(run)["state"] == "succeeded", cluster.ok("logs", run)
    assert "refused: invalid" in cluster.ok("logs", run)
    return run


def test_the_files_of_a_run_are_listed_and_downloaded(
    cluster: Cluster, run: str, source: Path, tmp_path: Path
) -> None:
    listed = json.loads(cluster.ok("artifacts", run, "--json"))["artifacts"]
    assert [(one["path"], one["is_folder"]) for one in listed] == [
        ("all", True),
        ("big.bin", False),
    ]
    assert "all/plots/deep/" in cluster.ok("artifacts", run, "all/plots")
    cluster.ok("artifacts", run, "all/plots", "--download", str(tmp_path / "to"))
    assert (tmp_path / "to" / "plots" / "a b+é.txt").read_text() == "one"
    assert (tmp_path / "to" / "plots" / "deep" / "c.txt").read_text() == "two"
    cluster.ok("artifacts", run, "big.bin", "--download", str(tmp_path / "to"))
    assert (tmp_path / "to" / "big.bin").read_bytes() == (source / "big.bin").read_bytes()
    cluster.ok("artifacts", run, "--download", str(tmp_path / "whole"))
    assert len([one for one in (tmp_path / "whole").rglob("*") if one.is_file()]) == 3
    none = cluster.command("artifacts", run, "none", "--download", str(tmp_path))
    assert none.returncode != 0 and "has no artifact none" in none.stderr


def test_files_are_sent_to_an_ended_run(
    cluster: Cluster, run: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ok("artifacts", run, "weights", "--put", str(source / "big.bin"))
    cluster.ok("artifacts", run, "--put", str(source / "plots"))
    monkeypatch.setenv("LOCKSTEP_HOME", str(cluster.home))
    monkeypatch.delenv("LOCKSTEP_URL", raising=False)
    read = lockstep.run(run)
    assert [one.path for one in read.artifacts()] == ["all", "big.bin", "plots", "weights"]
    weights = read.download_artifact("weights", tmp_path / "to")
    assert weights.read_bytes() == (source / "big.bin").read_bytes()
    read.log_artifact(source / "plots", "again")
    assert [one.path for one in read.artifacts("again")] == ["again/a b+é.txt", "again/deep"]
    folder = read.download_artifact("again", tmp_path / "to")
    assert (folder / "deep" / "c.txt").read_text() == "two"
    with pytest.raises(lockstep.DaemonError, match="relative"):
        read.log_artifact(source / "big.bin", "a/../b")
    with pytest.raises(FileNotFoundError):
        read.log_artifact(source / "none")
    with pytest.raises(RuntimeError, match="a rank of"):
        lockstep.log_artifact(source / "big.bin")


def test_the_size_of_an_artifact_is_a_setting(idle: Cluster, source: Path) -> None:
    idle.serve("1x1", "--set", "artifact_max=1MiB")
    run = idle.submit("--", "true")
    idle.ended(run)
    refused = idle.command("artifacts", run, "--put", str(source / "big.bin"))
    assert refused.returncode != 0 and "artifact_max" in refused.stderr
    idle.ok("artifacts", run, "--put", str(source / "plots"))
