"""One daemon with the engines of this machine and of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.api import Api
from tests.kubernetes.daemon import PodCluster


@pytest.fixture
def both(api: Api, tmp_path: Path) -> Iterator[PodCluster]:
    """Pods see the shared folder under the same path as this machine."""
    shared = tmp_path / "shared"
    shared.mkdir()
    volume = ("--pod-volume", f"host:{shared}:{shared}")
    cluster = PodCluster(tmp_path, api)
    try:
        cluster.start("--hosts", "1x2", "--shared", str(shared), *volume, engines="local,k8s")
        yield cluster
    finally:
        cluster.end()


def test_runs_start_on_this_machine_and_as_pods(both: PodCluster, tmp_path: Path) -> None:
    script = "echo made by $LOCKSTEP_RUN > $LOCKSTEP_CHECKPOINT_DIR/file"
    runs = {
        engine: both.submit("--constraint", f"engine={engine}", "--", "sh", "-c", script)
        for engine in ("local", "k8s")
    }
    for engine, run in runs.items():
        view = both.ended(run)
        assert (view["state"], view["attempts"][0]["engine"]) == ("succeeded", engine), view
    made = sorted(file.read_text() for file in (tmp_path / "shared").glob("**/file"))
    assert made == ["made by default/1\n", "made by default/2\n"]
    shown = both.ok("map")
    assert "engine local" in shown and "engine k8s" in shown
