"""Rendered manifests on an API server: they run, and a real server accepts them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api import Api
from tests.kubernetes.conftest import MakeNode
from tests.kubernetes.objects import await_phase

from tests.conftest import PATIENCE, PROGRAM, ROOT

GOLDEN = sorted((ROOT / "tests/golden/kubernetes").glob("*.yaml"))
RESOURCES = {"Service": "services", "Pod": "pods"}
ACCOUNT = "system:serviceaccount:ml:lockstep"


def kubectl(api: Api, *words: str) -> str:
    """The output of kubectl on the real control plane; the test is skipped on the stub."""
    folder = os.environ.get("LOCKSTEP_CONTROL_PLANE")
    if not folder:
        pytest.skip("needs a real control plane: ./dev check kubernetes")
    done = subprocess.run(
        [f"{folder}/bin/kubectl", "--kubeconfig", str(api.kubeconfig), *words],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.stdout


def test_the_pods_of_a_workload_run_with_their_own_rank(
    api: Api, namespace: str, make_node: MakeNode
) -> None:
    nodes = [make_node(devices=1) for _ in range(2)]
    words = ["pod", "--name", "train", "--namespace", namespace, "-n", "2", "-g", "1", "-I", "any"]
    script = "echo $NODE_RANK of $NNODES at $MASTER_ADDR, rank $RANK; echo '$(NNODES)'"
    rendered = subprocess.run(
        [str(PROGRAM), "k8s", "render", *words, "-c", script],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    for each in yaml.safe_load_all(rendered):
        api.create(RESOURCES[each["kind"]], namespace, each)
    for rank in range(2):
        pod = await_phase(api, namespace, f"train-{rank}", "Succeeded")
        [kubelet] = [each for each in nodes if each.node == pod["spec"]["nodeName"]]
        told = f"{rank} of 2 at train-0.train, rank {rank}\n$(NNODES)\n"
        assert kubelet.log(f"train-{rank}", "node") == told


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_real_server_accepts_the_manifests(api: Api, path: Path) -> None:
    kinds = {each["kind"] for each in yaml.safe_load_all(path.read_text())}
    if "JobSet" in kinds:
        pytest.skip("the control plane has no JobSets")
    # 1.20 does not know `completionMode` of a Job, and checks all else.
    known = ["--validate=false"] if "Job" in kinds else []
    if not api.list("namespaces", fieldSelector="metadata.name=ml")["items"]:
        api.create("namespaces", "", {"metadata": {"name": "ml"}})
    told = kubectl(api, "apply", "--dry-run=server", *known, "-f", str(path))
    assert told.count("(server dry run)") == len(list(yaml.safe_load_all(path.read_text())))


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "may"),
    [
        ("create", "pods", "ml", True),
        ("watch", "pods", "ml", True),
        ("delete", "configmaps", "ml", True),
        ("create", "secrets", "ml", True),
        ("get", "secrets", "ml", False),
        ("list", "secrets", "ml", False),
        ("create", "pods", "default", False),
        ("create", "pods/exec", "ml", False),
        ("update", "nodes", "", False),
        ("watch", "nodes", "", True),
    ],
)
def test_the_rights_are_those_of_the_design_and_no_more(
    api: Api, verb: str, resource: str, namespace: str, may: bool
) -> None:
    if not api.list("namespaces", fieldSelector="metadata.name=ml")["items"]:
        api.create("namespaces", "", {"metadata": {"name": "ml"}})
    kubectl(api, "apply", "-f", str(ROOT / "tests/golden/kubernetes/rbac.yaml"))
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": ACCOUNT,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ml"],
            "resourceAttributes": {
                "verb": verb,
                "resource": resource.partition("/")[0],
                "subresource": resource.partition("/")[2],
                "namespace": namespace,
            },
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert api.call("POST", path, review)["status"]["allowed"] is may
