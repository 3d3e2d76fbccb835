"""Runs as Pods: one daemon for all tests of this file, on the stub or the real control plane."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.api import Api
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.daemon import NOW, PodCluster
from tests.kubernetes.objects import is_gone, make_claim, pod
from tests.kubernetes.stub_faults import Fault
from tests.kubernetes.stub_server import StubServer

from tests.conftest import ROOT, wait_until

SLEEP = ("--", "sleep", "600")


@pytest.fixture(scope="module")
def served(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    cluster = PodCluster(tmp_path_factory.mktemp("daemon"), api)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def faults(server: ControlPlane | StubServer) -> StubServer:
    if isinstance(server, ControlPlane):
        pytest.skip("the real control plane breaks nothing on demand")
    return server


def test_four_pods_of_two_ranks_train(served: PodCluster) -> None:
    script = str(ROOT / "tests/kubernetes/train.py")
    run = served.submit("--nodes", "4", "--devices", "2", "--", sys.executable, script)
    view = served.ended(run)
    assert view["state"] == "succeeded", served.logs(run)
    assert len(view["attempts"]) == 1
    assert {node["host"] for node in view["attempts"][0]["nodes"]} == set(served.kubelets)
    assert sum("the sum is 28" in line for line in served.logs(run)) == 8


def test_secrets_are_in_secrets_alone(served: PodCluster) -> None:
    run = served.submit("--nodes", "2", "--env", "API_KEY=hidden-from-all", *SLEEP)
    served.running_ranks(run)
    secrets = served.api.list("secrets", served.namespace)["items"]
    launches = [
        json.loads(base64.b64decode(secret["data"]["launch.json"]))
        for secret in secrets
        if "launch.json" in secret.get("data", {})
    ]
    assert launches
    shown = json.dumps(served.api.list("pods", served.namespace)["items"])
    shown += json.dumps(served.api.list("configmaps", served.namespace)["items"])
    for launch in launches:
        for secret in (launch["token"], launch["secret"], "hidden-from-all", served.token()):
            assert secret not in shown
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"


def test_stop_deletes_all_objects(served: PodCluster) -> None:
    run = served.submit("--nodes", "2", *SLEEP)
    served.running_ranks(run)
    assert served.objects()
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"
    wait_until("no object is left", lambda: not served.objects())


def test_a_deleted_pod_starts_the_run_again(served: PodCluster) -> None:
    run = served.submit("--nodes", "2", *SLEEP)
    served.running_ranks(run)
    second = served.pods(run)[1]["metadata"]["name"]
    served.api.delete("pods", served.namespace, second)
    wait_until("a second attempt", lambda: len(served.show(run)["attempts"]) == 2)
    served.running_ranks(run)
    first = served.show(run)["attempts"][0]
    assert second in first["reason"] or "by signal 15" in first["reason"], first["reason"]
    served.ok("stop", run)
    served.ended(run)


def test_a_run_leaves_a_node_that_goes_away(served: PodCluster) -> None:
    run = served.submit("--nodes", "2", *SLEEP)
    served.running_ranks(run)
    lost = served.kubelet_of(served.pods(run)[1])
    lost.lose_power()
    served.api.delete("nodes", "", lost.node)
    wait_until("a second attempt", lambda: len(served.show(run)["attempts"]) == 2)
    served.running_ranks(run)
    first, second = served.show(run)["attempts"]
    assert lost.node in first["reason"]
    assert lost.node not in {node["host"] for node in second["nodes"]}
    served.restart_node(lost.node)
    served.ok("stop", run)
    served.ended(run)


def test_a_daemon_that_was_killed_takes_up_its_pods(served: PodCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sh", "-c", "echo begin; sleep 3; echo end")
    served.running_ranks(run)
    before = [pod["metadata"]["uid"] for pod in served.pods(run)]
    served.kill_daemon()
    served.start()
    view = served.ended(run)
    assert view["state"] == "succeeded"
    assert len(view["attempts"]) == 1
    assert [pod["metadata"]["uid"] for pod in served.pods(run)] in (before, [])
    assert sum(line.endswith("end") for line in served.logs(run)) == 2


def test_another_store_adopts_a_run_with_its_variables(served: PodCluster, tmp_path: Path) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo key is $API_KEY; exit 1"
    words = ("--project", "act", "--retries", "1", "--env", "API_KEY=hidden-too")
    run = served.submit(*words, "--", "sh", "-c", script)
    served.running_ranks(run)
    served.ok("serve", "--stop")
    for file in served.home.glob("lockstep.db*"):
        file.rename(tmp_path / file.name)
    served.start()
    served.ok("orphan", "adopt", run)
    (tmp_path / "go").touch()
    view = served.ended(run)
    assert (view["state"], len(view["attempts"])) == ("failed", 2)
    # The second attempt is one of this daemon, with the same variables.
    assert sum("key is hidden-too" in line for line in served.logs(run)) == 2
    shown = json.dumps(served.api.list("configmaps", served.namespace)["items"])
    assert "hidden-too" not in shown


def test_a_node_with_a_taint_takes_only_runs_that_tolerate_it(
    served: PodCluster, tmp_path: Path
) -> None:
    tainted = next(iter(served.kubelets))
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    served.api.patch("nodes", "", tainted, {"spec": {"taints": [taint]}})
    try:
        wait_until("the taint is seen", lambda: "taint/spot" in served.ok("host", "ls", "--json"))
        refused = served.command("run", "--nodes", "4", "--", "true")
        assert "1 host with taints, which the run does not tolerate" in refused.stderr
        spec = {"command": ["true"], "nodes": 4, "kubernetes": {"tolerations": ["spot=true"]}}
        (tmp_path / "run.yaml").write_text(json.dumps(spec))
        view = served.ended(served.submit(str(tmp_path / "run.yaml")))
        assert view["state"] == "succeeded", view
        assert tainted in {node["host"] for node in view["attempts"][0]["nodes"]}
    finally:
        served.api.patch("nodes", "", tainted, {"spec": {"taints": None}})
        wait_until("it is gone", lambda: "taint/spot" not in served.ok("host", "ls", "--json"))


def test_why_says_that_kubernetes_keeps_a_pod_waiting(served: PodCluster) -> None:
    hold_all_devices(served)
    run = served.submit("--", "true")
    try:
        wait_until("the scheduler's words", lambda: "nodes are available" in served.ok("why", run))
    finally:
        for node in served.kubelets:
            served.api.delete("pods", served.namespace, node, **NOW)
    assert served.ended(run)["state"] == "succeeded"


def hold_all_devices(served: PodCluster) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    for node in served.kubelets:
        foreign = pod(node, node=node, container=limits, terminationGracePeriodSeconds=1)
        served.api.create("pods", served.namespace, foreign)
    wait_until(
        "others have all devices",
        lambda: all(
            served.api.get("pods", served.namespace, node)["status"]["phase"] == "Running"
            for node in served.kubelets
        ),
    )


def test_why_names_an_image_that_cannot_be_pulled(served: PodCluster) -> None:
    run = served.submit("--image", "missing/image", "--", "true")
    wait_until("the image is named", lambda: "missing/image" in served.ok("why", run))
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"


def test_why_names_a_secret_that_cannot_be_mounted(served: PodCluster, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text('command: ["true"]\nkubernetes: {volumes: ["secret:aws:/aws"]}\n')
    run = served.submit(str(file))
    wait_until("the Secret is named", lambda: '"aws" not found' in served.ok("why", run))
    assert "FailedMount" in served.ok("why", run)
    secret = {"metadata": {"name": "aws"}, "stringData": {"key": "x"}}
    served.api.create("secrets", served.namespace, secret)
    assert served.ended(run)["state"] == "succeeded"


def test_why_names_a_claim_that_is_missing(served: PodCluster, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text('command: ["true"]\nkubernetes: {volumes: ["pvc:none:/data"]}\n')
    run = served.submit(str(file))
    wait_until("the claim is named", lambda: 'claim "none" not found' in served.ok("why", run))
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"


SECTION = """
name: asks-for-all
devices: 2
command: [sh, -c, "cat /settings/key /data/in > /data/out; sleep 600"]
kubernetes:
  service_account: trainer
  shared_memory: 64Mi
  volumes: ["pvc:data:/data", "config-map:settings:/settings:ro", "empty:/scratch"]
  tolerations: ["spot=true:NoSchedule"]
  node_selector: {pool: a}
  image_pull_secrets: [registry]
  priority_class: system-cluster-critical
  resources: {rdma/hca: 1}
  host_network: true
"""


def test_a_run_gets_what_its_section_asks_for(served: PodCluster, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "in").write_text("from the claim\n")
    make_claim(served.api, served.namespace, "data", str(folder))
    settings = {"metadata": {"name": "settings"}, "data": {"key": "from the ConfigMap\n"}}
    served.api.create("configmaps", served.namespace, settings)
    for node in served.kubelets:
        served.api.patch("nodes", "", node, {"metadata": {"labels": {"pool": "a"}}})
    (tmp_path / "run.yaml").write_text(SECTION)
    run = served.submit(str(tmp_path / "run.yaml"))
    served.running_ranks(run)
    out = folder / "out"
    wait_until("its output", lambda: out.exists() and out.read_text().count("\n") == 2)
    assert out.read_text() == "from the ConfigMap\nfrom the claim\n"
    [found] = served.pods(run)
    spec, [container] = found["spec"], found["spec"]["containers"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["serviceAccountName"] == "trainer"
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["nodeSelector"] == {"pool": "a"}
    assert {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"} in spec[
        "tolerations"
    ]
    assert str(container["resources"]["limits"]["rdma/hca"]) == "1"
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    mounts = {
        mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]
    }
    assert (mounts["/data"], mounts["/settings"], mounts["/scratch"]) == (False, True, False)
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"


def test_the_logs_of_a_pod_have_its_agents_log_and_the_first_error(served: PodCluster) -> None:
    script = "echo some output; echo RuntimeError: no such layer >&2; exit 3"
    run = served.submit("--", "sh", "-c", script)
    assert served.ended(run)["state"] == "failed"
    [found] = served.pods(run)
    name = found["metadata"]["name"]
    logs = served.kubelet_of(found).log(name, "node")  # as `kubectl logs` prints them
    assert "started 1 ranks" in logs and "rank 0 exited with 3" in logs
    assert "the last lines of rank 0:\nsome output\nRuntimeError: no such layer\n" in logs


def test_a_pod_that_was_killed_for_memory_says_so(served: PodCluster) -> None:
    run = served.submit("--rank-loss-retries", "0", *SLEEP)
    served.running_ranks(run)
    killed = served.pods(run)[0]
    served.kubelet_of(killed).worker(killed["metadata"]["name"]).kill_for_memory()
    view = served.ended(run)
    assert "OOMKilled" in view["attempts"][0]["reason"], view["attempts"]


@pytest.mark.parametrize("status", [401, 409, 429, 500])
def test_an_error_of_the_server_costs_no_attempt(
    served: PodCluster, faults: StubServer, status: int
) -> None:
    for resource in ("configmaps", "secrets", "pods"):
        faults.faults.add(Fault("POST", f"/{served.namespace}/{resource}", status=status))
    run = served.submit("--nodes", "2", "--", "true")
    view = served.ended(run)
    assert (view["state"], len(view["attempts"])) == ("succeeded", 1)


def test_answers_that_are_lost_late_or_doubled_cost_no_attempt(
    served: PodCluster, faults: StubServer
) -> None:
    for resource in ("configmaps", "secrets", "pods"):
        path = f"/{served.namespace}/{resource}"
        faults.faults.add(Fault("POST", path, loses_answer=True))
        faults.faults.add(Fault("POST", path, repeats=True))
        faults.faults.add(Fault("POST", path, delay=0.5))
    run = served.submit("--nodes", "3", "--", "true")
    view = served.ended(run)
    assert (view["state"], len(view["attempts"])) == ("succeeded", 1)


def test_a_watch_that_is_cut_or_too_old_costs_no_attempt(
    served: PodCluster, faults: StubServer
) -> None:
    watch = f"/{served.namespace}/pods.*watch=true"
    run = served.submit("--nodes", "2", "--", "sh", "-c", "sleep 3")
    served.running_ranks(run)
    faults.faults.add(Fault("GET", watch, cuts_after=1))
    faults.faults.add(Fault("GET", watch, status=410))
    faults.faults.add(Fault("GET", watch, status=429, retry_after=1))
    faults.forget()
    view = served.ended(run)
    assert (view["state"], len(view["attempts"])) == ("succeeded", 1)


def test_a_pod_of_another_program_is_left_alone(served: PodCluster, tmp_path: Path) -> None:
    served.api.create("pods", served.namespace, pod("other", node=next(iter(served.kubelets))))
    run = served.submit("--", "true")
    assert served.ended(run)["state"] == "succeeded"
    assert not is_gone(served.api, "pods", served.namespace, "other")
    served.api.delete("pods", served.namespace, "other", **NOW)
