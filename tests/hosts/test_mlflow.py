"""A script with MLflow on a host that joined over HTTPS logs to its own run."""

from __future__ import annotations

import pytest
from tests.hosts.cluster import Cluster
from tests.hosts.host import Host

from tests.conftest import BUILD

pytest.importorskip("mlflow", reason="needs mlflow-skinny")

SCRIPT = """
import os, mlflow
assert os.environ["MLFLOW_TRACKING_URI"].startswith("https://")
with mlflow.start_run():
    mlflow.log_metric("loss" + os.environ["RANK"], 0.5, step=3)
"""


def test_a_rank_on_a_host_that_joined_over_https_logs_to_its_run(
    cluster: Cluster, hosts: list[Host]
) -> None:
    quiet = ("--env", "MLFLOW_DISABLE_TELEMETRY=true", "--env", "DO_NOT_TRACK=true")
    python = str(BUILD / "venv" / "bin" / "python")
    size = ("--nodes", "2", "--devices", "1")
    words = ("run", "--detach", *size, *quiet, "--", python, "-c", SCRIPT)
    run = cluster.ok(*words).split()[0]
    ended = cluster.await_state(run, "succeeded")
    assert ended["latest"] == {"loss0": 0.5, "loss1": 0.5}, cluster.ok("logs", run)
    assert [one["id"] for one in cluster.json("ps")["runs"]].count(run) == 1
