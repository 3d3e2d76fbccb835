"""Rendered manifests on an API server: they run, and a real server accepts them."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.api import Api
from tests.kubernetes.conftest import MakeNode
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.objects import await_phase
from tests.kubernetes.stub_server import StubServer

from tests.conftest import BUILD, PATIENCE, PROGRAM, ROOT, reserved_port, wait_until

GOLDEN = sorted((ROOT / "tests/golden/kubernetes").glob("*.yaml"))
PYTHON = BUILD / "venv/bin/python"
RESOURCES = {"Service": "services", "Pod": "pods", "Job": "jobs", "JobSet": "jobsets"}
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


def apply_rendered(api: Api, namespace: str, kind: str, *words: str) -> None:
    done = subprocess.run(
        [str(PROGRAM), "k8s", "render", kind, "--namespace", namespace, "-I", "any", *words],
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    for each in yaml.safe_load_all(done.stdout):
        api.create(RESOURCES[each["kind"]], namespace, each)


def logs_of(api: Api, namespace: str, kubelets: list[Kubelet], pods: list[str]) -> list[str]:
    """The output of the Pods, once each has ended; all must have succeeded."""
    logs = []
    for name in pods:
        pod = await_phase(api, namespace, name, "Succeeded", "Failed")
        [kubelet] = [each for each in kubelets if each.node == pod["spec"]["nodeName"]]
        logs.append(kubelet.log(name, "node"))
        assert pod["status"]["phase"] == "Succeeded", logs[-1]
    return logs


def test_the_pods_of_a_workload_run_with_their_own_rank(
    api: Api, namespace: str, make_node: MakeNode
) -> None:
    kubelets = [make_node(devices=1) for _ in range(2)]
    script = "echo $NODE_RANK of $NNODES, rank $RANK of $WORLD_SIZE; echo '$(NNODES)'"
    apply_rendered(api, namespace, "pod", "--name", "a", "-n", "2", "-g", "1", "-c", script)
    assert logs_of(api, namespace, kubelets, ["a-0", "a-1"]) == [
        f"{rank} of 2, rank {rank} of 2\n$(NNODES)\n" for rank in range(2)
    ]


SUM = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("sum", int(total))
# Gloo may crash in a rank that ends while others still communicate, or with its group.
dist.barrier()
dist.destroy_process_group()
"""


def test_torchrun_needs_no_options_in_the_pods_of_a_workload(
    api: Api, namespace: str, make_node: MakeNode, tmp_path: Path
) -> None:
    kubelets = [make_node(devices=2) for _ in range(2)]
    (tmp_path / "sum.py").write_text(SUM)
    program = [f"{PYTHON.parent}/torchrun", f"{tmp_path}/sum.py"]
    with reserved_port() as port:
        words = ["--name", "a", "-n", "2", "-g", "2", "--master-port", str(port)]
        apply_rendered(api, namespace, "pod", *words, "-e", "OMP_NUM_THREADS=1", "--", *program)
        logs = logs_of(api, namespace, kubelets, ["a-0", "a-1"])
    assert [log.count("sum 4\n") for log in logs] == [2, 2]


@pytest.fixture
def jobs(server: ControlPlane | StubServer, namespace: str) -> str:
    """The namespace, on a server with Indexed Jobs."""
    if isinstance(server, ControlPlane):
        pytest.skip("Kubernetes 1.20 has no Indexed Jobs")
    return namespace


def pods_of_job(api: Api, namespace: str, count: int, job: str = "a") -> list[str]:
    """Their names, in the order of their indexes."""

    def names() -> list[str]:
        pods = api.list("pods", namespace, labelSelector=f"job-name={job}")["items"]
        return sorted(pod["metadata"]["name"] for pod in pods)

    return list(wait_until("the Pods of the Job", lambda: len(names()) == count and names()))


def end_of_job(api: Api, namespace: str) -> str:
    def ends() -> list[str]:
        conditions = api.get("jobs", namespace, "a").get("status", {}).get("conditions", [])
        return [condition["type"] for condition in conditions]

    return str(wait_until("the end of the Job", ends)[0])


def test_the_ranks_of_a_job_find_each_other(
    api: Api, jobs: str, make_node: MakeNode, tmp_path: Path
) -> None:
    kubelets = [make_node(devices=1) for _ in range(2)]
    (tmp_path / "sum.py").write_text(SUM)
    with reserved_port() as port:
        words = ["--name", "a", "-n", "2", "-g", "1", "--master-port", str(port)]
        apply_rendered(api, jobs, "job", *words, "--", str(PYTHON), f"{tmp_path}/sum.py")
        logs = logs_of(api, jobs, kubelets, pods_of_job(api, jobs, 2))
    assert [log.count("sum 2\n") for log in logs] == [1, 1]
    assert end_of_job(api, jobs) == "Complete"


def test_the_ranks_of_a_jobset_find_each_other(
    api: Api, jobs: str, make_node: MakeNode, tmp_path: Path
) -> None:
    kubelets = [make_node(devices=1) for _ in range(2)]
    (tmp_path / "sum.py").write_text(SUM)
    with reserved_port() as port:
        words = ["--name", "a", "-n", "2", "-g", "1", "--master-port", str(port)]
        apply_rendered(api, jobs, "jobset", *words, "--", str(PYTHON), f"{tmp_path}/sum.py")
        logs = logs_of(api, jobs, kubelets, pods_of_job(api, jobs, 2, "a-node-0"))
    assert [log.count("sum 2\n") for log in logs] == [1, 1]
    wait_until("its end", lambda: api.get("jobsets", jobs, "a").get("status"))
    assert api.get("jobsets", jobs, "a")["status"]["terminalState"] == "Completed"


def test_a_pod_that_fails_ends_its_job(api: Api, jobs: str, make_node: MakeNode) -> None:
    for _ in range(2):
        make_node(devices=1)
    script = "test $NODE_RANK = 0 && exec sleep 600; exit 3"
    words = ["--name", "a", "-n", "2", "-g", "1", "--grace-period", "1s"]
    apply_rendered(api, jobs, "job", *words, "-c", script)
    assert end_of_job(api, jobs) == "Failed"
    [failed] = pods_of_job(api, jobs, 1)
    assert failed.startswith("a-1-")


def test_a_job_of_kueue_waits_until_its_queue_starts_it(api: Api, jobs: str) -> None:
    words = ["--name", "a", "-n", "2", "--gang", "kueue=queue"]
    apply_rendered(api, jobs, "job", *words, "-c", "true")
    assert api.list("pods", jobs)["items"] == []
    api.patch("jobs", jobs, "a", {"spec": {"suspend": False}})
    pods_of_job(api, jobs, 2)
    api.delete("jobs", jobs, "a", propagationPolicy="Background")
    wait_until("no Pod is left", lambda: not api.list("pods", jobs)["items"])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_real_server_accepts_the_manifests(api: Api, path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    kinds = {each["kind"] for each in documents}
    if "Namespace" in kinds:
        pytest.skip("a dry run makes no namespace for the other objects")
    if absent := {"JobSet", "PodGroup"} & kinds:
        pytest.skip(f"the control plane has no {absent}")
    # 1.20 does not know `completionMode` of a Job, and checks all else.
    known = ["--validate=false"] if "Job" in kinds else []
    for name in {"ml", *(each["metadata"].get("namespace", "ml") for each in documents)}:
        if not api.list("namespaces", fieldSelector=f"metadata.name={name}")["items"]:
            api.create("namespaces", "", {"metadata": {"name": name}})
    told = kubectl(api, "apply", "--dry-run=server", *known, "-f", str(path))
    assert told.count("(server dry run)") == len(documents)


def test_a_real_server_makes_the_daemon(api: Api, tmp_path: Path) -> None:
    name = f"daemon-{uuid.uuid4().hex[:8]}"
    words = ["install", "--namespace", name, "--image", "registry.example/lockstep:0.1.0"]
    done = subprocess.run(
        [str(PROGRAM), "k8s", *words], text=True, capture_output=True, timeout=PATIENCE, check=True
    )
    manifests = tmp_path / "install.yaml"
    manifests.write_text(done.stdout)
    told = kubectl(api, "apply", "-f", str(manifests))
    assert told.count(" created\n") == len(list(yaml.safe_load_all(done.stdout)))
    # The controller of the Deployment has accepted its Pod.
    [pod] = wait_until("a Pod of the daemon", lambda: api.list("pods", name)["items"])
    assert pod["spec"]["serviceAccountName"] == "lockstep"


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "may"),
    [
        ("create", "pods", "ml", True),
        ("watch", "pods", "ml", True),
        ("delete", "configmaps", "ml", True),
        ("create", "secrets", "ml", True),
        ("get", "secrets", "ml", False),
        ("list", "secrets", "ml", False),
        ("list", "events", "ml", True),
        ("create", "events", "ml", False),
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
