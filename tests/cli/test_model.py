"""`lockstep model`: checkpoints and artifacts of runs as versions of models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.calls import bearer, call, user_token

from tests.conftest import Cluster

# Reports that checkpoints are complete, as lockstep.checkpoint() does.
CHECKPOINTS = """
import json, os, socket
reports = socket.socket(socket.AF_UNIX)
reports.connect(os.environ["LOCKSTEP_REPORT"])
for step in (500, 1000):
    report = {"kind": "checkpoint", "step": step, "path": f"/checkpoints/step-{step}"}
    reports.sendall(json.dumps(report).encode() + b"\\n")
"""


@pytest.fixture
def run(cluster: Cluster) -> str:
    """An ended run with two checkpoints and the artifacts model/weights and model/config."""
    run = cluster.submit("--", "python3", "-c", CHECKPOINTS)
    assert cluster.ended(run)["state"] == "succeeded"
    cluster.ok("tag", run, "data=wiki")
    name = run.replace("/", "-")
    for part in ("weights", "config"):
        target = f"/api/2.0/mlflow-artifacts/artifacts/0/{name}/artifacts/model/{part}"
        assert call(cluster, "PUT", target, b"x", bearer(user_token(cluster))).status == 200
    return run


def shown(cluster: Cluster, model: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(cluster.ok("model", "show", model, "--json"))
    return view


def test_a_checkpoint_is_a_version_with_its_run_and_data(cluster: Cluster, run: str) -> None:
    said = cluster.ok("model", "register", f"{run}/step-500", "--as", "gpt:3", "--note", "good")
    assert said == f"{run}/step-500 is default/gpt:3\n"
    said = cluster.ok("model", "register", run, "--as", "gpt", "--data", "books")
    assert said == f"{run}/step-1000 is default/gpt:4\n", "the newest checkpoint, the next number"
    newest, older = shown(cluster, "gpt")["versions"]
    assert (newest["step"], newest["path"]) == (1000, "/checkpoints/step-1000")
    assert (newest["data_set"], older["data_set"]) == ("books", "wiki")
    assert (older["run"], older["step"], older["description"]) == (run, 500, "good")
    assert older["git_commit"] == cluster.show(run)["origin"]["git_commit"]
    again = cluster.ok("model", "register", f"{run}/step-500", "--as", "gpt")
    assert again.endswith("gpt:3\n"), "the same source is the same version"
    table = cluster.ok("model", "show", "default/gpt:3")
    assert "gpt:3" in table and "gpt:4" not in table
    assert "default/gpt" in cluster.ok("model", "ls")


def test_an_alias_moves_from_version_to_version(cluster: Cluster, run: str) -> None:
    for step in (500, 1000):
        cluster.ok("model", "register", f"{run}/step-{step}", "--as", "gpt")
    cluster.ok("model", "alias", "gpt:1", "production")
    assert cluster.ok("model", "alias", "gpt:2", "production").endswith("is default/gpt:2\n")
    (version,) = shown(cluster, "gpt@production")["versions"]
    assert version["version"] == 2
    cluster.ok("model", "alias", "gpt", "production", "--remove")
    assert shown(cluster, "gpt")["aliases"] == {}
    actions = [line for line in cluster.ok("audit").splitlines() if "model." in line]
    assert sum("model.alias" in line for line in actions) == 3
    assert sum("model.register" in line for line in actions) == 2


def test_a_run_with_versions_stays_until_they_are_removed(cluster: Cluster, run: str) -> None:
    cluster.ok("model", "register", f"{run}/model", "--as", "gpt")
    refused = cluster.command("rm", run, "--yes")
    assert refused.returncode != 0
    assert "has gpt:1: remove them first" in refused.stderr
    cluster.ok("model", "rm", "gpt:1")
    assert shown(cluster, "gpt")["versions"] == []
    cluster.ok("model", "rm", "gpt")
    cluster.ok("rm", run, "--yes")
    assert cluster.ok("model", "ls").startswith("no models;")


def test_what_is_not_there_is_not_registered(cluster: Cluster, run: str) -> None:
    for words, error in (
        ((f"{run}/step-7", "--as", "gpt"), "has no checkpoint of step 7"),
        ((f"{run}/none.txt", "--as", "gpt"), "has no artifact none.txt"),
        ((f"{run}/../x", "--as", "gpt"), "the path of an artifact is relative"),
        ((run,), "name the model"),
        ((run, "--as", "gpt:0"), "is no number above 0"),
        ((run, "--as", "gpt@x"), "--as takes a version"),
        ((run, "--as", "a b"), "model"),
        ((run, "--as", "other/gpt"), "other"),
        (("default/99", "--as", "gpt"), "default/99"),
    ):
        refused = cluster.command("model", "register", *words)
        assert refused.returncode != 0 and error in refused.stderr, (words, refused.stderr)
        assert refused.stderr.count("\n") == 1, refused.stderr
    assert cluster.ok("model", "ls").startswith("no models;")
