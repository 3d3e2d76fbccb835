"""A script with MLflow inside `lockstep run` logs to its own run, by a token of its attempt."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.api.calls import bearer, call

from tests.conftest import Cluster, wait_until

pytest.importorskip("mlflow", reason="needs mlflow-skinny")

SCRIPT = """
import os, sys
from pathlib import Path
import mlflow
from mlflow import MlflowClient

rank = os.environ["RANK"]
mlflow.set_experiment("bert")
with mlflow.start_run(run_name="tries") as run:
    mlflow.log_param(f"lr{rank}", 1)
    mlflow.log_metric(f"loss{rank}", 0.5, step=3)
    mlflow.log_text("hello", f"note{rank}.txt")
    if rank == "0":
        with mlflow.start_run(nested=True, run_name="part") as part:
            mlflow.log_metric("inner", 1.0)
    try:
        MlflowClient().set_tag(os.environ["OTHER"], "a", "b")
    except mlflow.exceptions.MlflowException as refused:
        print("refused:", refused.error_code)
print("token:", os.environ["MLFLOW_TRACKING_TOKEN"])
Path(os.environ["FOLDER"], rank).write_text(os.environ["MLFLOW_TRACKING_TOKEN"])
"""
QUIET = ("--env", "MLFLOW_DISABLE_TELEMETRY=true", "--env", "DO_NOT_TRACK=true")


def test_all_ranks_of_a_script_log_to_their_own_run(cluster: Cluster, tmp_path: Path) -> None:
    other = cluster.submit("--", "true")
    cluster.ended(other)
    run = cluster.submit(
        *("--devices", "2", *QUIET, "--env", f"FOLDER={tmp_path}"),
        *("--env", f"OTHER={other.replace('/', '-')}", "--", sys.executable, "-c", SCRIPT),
    )
    ended = cluster.ended(run)
    logs = cluster.ok("logs", run)
    assert ended["state"] == "succeeded", logs
    assert ended["latest"] == {"loss0": 0.5, "loss1": 0.5}
    assert logs.count("refused: PERMISSION_DENIED") == 2, "another run of the same user"
    assert logs.count("token: ***") == 2

    tokens = {(tmp_path / rank).read_text() for rank in ("0", "1")}
    assert len(tokens) == 2
    read = f"/api/2.0/mlflow/runs/get?run_id={run.replace('/', '-')}"
    for token in tokens:
        assert token.startswith("lsr_") and token not in logs
        assert call(cluster, "GET", read, headers=bearer(token)).status == 401, "it has ended"
    runs = json.loads(cluster.ok("ps", "--json"))["runs"]
    assert sorted(one["name"] for one in runs if one["id"] not in (other, run)) == ["part"]


def test_a_token_of_a_rank_is_for_mlflow_only(cluster: Cluster, tmp_path: Path) -> None:
    wait = "printf %s $MLFLOW_TRACKING_TOKEN >$FOLDER/t && mv $FOLDER/t $FOLDER/0; sleep 100"
    run = cluster.submit("--env", f"FOLDER={tmp_path}", "--", "sh", "-c", wait)
    cluster.running_ranks(run)
    wait_until("the token is there", lambda: (tmp_path / "0").exists())
    token = (tmp_path / "0").read_text()
    name = run.replace("/", "-")
    read = f"/api/2.0/mlflow/runs/get?run_id={name}"
    assert call(cluster, "GET", read, headers=bearer(token)).status == 200
    for wrong in (
        token[:-1] + ("0" if token[-1] != "0" else "1"),
        token.replace("/1.1_", "/2.1_"),
        token.replace("1_0_", "1_1_"),
    ):
        assert call(cluster, "GET", read, headers=bearer(wrong)).status == 401
    for target in ("/api/v1/runs", f"/api/v1/runs/{run}"):
        assert call(cluster, "GET", target, headers=bearer(token)).status == 401
    cluster.ok("stop", run)
    cluster.ended(run)
    assert call(cluster, "GET", read, headers=bearer(token)).status == 401


def test_a_server_that_the_user_names_wins(cluster: Cluster) -> None:
    show = "echo uri=$MLFLOW_TRACKING_URI token=$MLFLOW_TRACKING_TOKEN"
    run = cluster.submit("--env", "MLFLOW_TRACKING_URI=http://mine", "--", "sh", "-c", show)
    cluster.ended(run)
    assert "uri=http://mine token=\n" in cluster.ok("logs", run)
