"""The kubelet of the tests reports what a real one reports, on any API server."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.kubernetes.api import Api, Object
from tests.kubernetes.conftest import MakeNode
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.objects import await_phase, is_gone, make_claim, pod, state_of

from tests.conftest import is_alive, wait_until


@pytest.fixture
def kubelet(make_node: MakeNode) -> Kubelet:
    return make_node()


def run(api: Api, namespace: str, kubelet: Kubelet, *command: str, **spec: object) -> Object:
    """The Pod `a`, once it has ended."""
    api.create("pods", namespace, pod("a", *command, node=kubelet.node, **spec))
    return await_phase(api, namespace, "a", "Succeeded", "Failed")


def process_of(kubelet: Kubelet, name: str = "a") -> int:
    process = kubelet.worker(name).containers["main"].process
    assert process
    return process.pid


def test_a_pod_whose_program_ends_well_has_succeeded(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    ended = run(
        api,
        namespace,
        kubelet,
        "sh",
        "-c",
        "echo $GREETING",
        container={
            "env": [
                {"name": "WHO", "value": "you"},
                {"name": "GREETING", "value": "to $(WHO) $(X)"},
            ]
        },
    )
    assert ended["status"]["phase"] == "Succeeded"
    end = state_of(ended)["terminated"]
    assert (end["exitCode"], end["reason"]) == (0, "Completed")
    assert kubelet.log("a", "main") == "to you $(X)\n"


def test_a_pod_whose_program_fails_has_failed_with_its_exit_code(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    ended = run(api, namespace, kubelet, "sh", "-c", "exit 3")
    assert ended["status"]["phase"] == "Failed"
    end = state_of(ended)["terminated"]
    assert (end["exitCode"], end["reason"]) == (3, "Error")


def test_a_program_that_a_signal_ended_has_128_and_its_number(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    ended = run(api, namespace, kubelet, "sh", "-c", "kill -KILL $$$$")
    assert state_of(ended)["terminated"]["exitCode"] == 128 + signal.SIGKILL


def test_a_program_that_does_not_exist_is_a_start_error(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    ended = run(api, namespace, kubelet, "/no/such/program")
    end = state_of(ended)["terminated"]
    assert (end["exitCode"], end["reason"]) == (128, "StartError")


SHARED = {"volumes": [{"name": "shared", "emptyDir": {}}]}
MOUNTS = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def test_init_containers_run_first_and_share_empty_folders(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    init = {"name": "copy", "image": "any", "command": ["cp", "/bin/true", "/shared/program"]}
    spec = {**SHARED, "initContainers": [{**init, **MOUNTS}], "container": MOUNTS}
    ended = run(api, namespace, kubelet, "/shared/program", **spec)
    assert ended["status"]["phase"] == "Succeeded"
    assert state_of(ended, "copy")["terminated"]["exitCode"] == 0


def test_a_failed_init_container_ends_the_pod(api: Api, namespace: str, kubelet: Kubelet) -> None:
    init = {"name": "copy", "image": "any", "command": ["false"]}
    ended = run(api, namespace, kubelet, "touch", "/nowhere", initContainers=[init])
    assert ended["status"]["phase"] == "Failed"
    assert state_of(ended, "copy")["terminated"]["exitCode"] == 1
    assert "waiting" in state_of(ended)


def test_a_secret_is_files_with_the_mode_that_the_volume_names(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    volume = {"name": "shared", "secret": {"secretName": "launch", "defaultMode": 0o600}}
    script = "stat -c %a /shared/token; cat /shared/token"
    spec = {"volumes": [volume], "container": MOUNTS}
    api.create("pods", namespace, pod("a", "sh", "-c", script, node=kubelet.node, **spec))
    # The Pod waits for it.
    mine = "involvedObject.kind=Pod,type=Warning,reason=FailedMount"
    warnings = wait_until(
        "a warning", lambda: api.list("events", namespace, fieldSelector=mine)["items"]
    )
    assert '"launch" not found' in warnings[0]["message"]
    assert "waiting" in state_of(api.get("pods", namespace, "a"))
    api.create("secrets", namespace, {"metadata": {"name": "launch"}, "stringData": {"token": "x"}})
    assert await_phase(api, namespace, "a", "Succeeded", "Failed")["status"]["phase"] == "Succeeded"
    assert kubelet.log("a", "main") == "600\nx"


def test_a_claim_is_the_folder_of_its_volume(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    claim = {"name": "shared", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"volumes": [claim], "container": MOUNTS}
    api.create("pods", namespace, pod("a", "touch", "/shared/file", node=kubelet.node, **spec))

    def says_what_is_missing() -> bool:
        conditions = api.get("pods", namespace, "a")["status"].get("conditions", [])
        return any('persistentvolumeclaim "data" not found' in str(each) for each in conditions)

    wait_until("the words of the scheduler", says_what_is_missing)
    make_claim(api, namespace, "data", str(tmp_path))
    await_phase(api, namespace, "a", "Succeeded")
    assert (tmp_path / "file").exists()


def test_a_container_knows_its_pod_by_the_downward_api(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    fields = {"NAME": "metadata.name", "NODE": "spec.nodeName", "UID": "metadata.uid"}
    env = [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": f}}} for n, f in fields.items()]
    ended = run(
        api, namespace, kubelet, "sh", "-c", "echo $NAME $NODE $UID", container={"env": env}
    )
    uid = ended["metadata"]["uid"]
    assert kubelet.log("a", "main") == f"a {kubelet.node} {uid}\n"


def test_an_image_that_cannot_be_pulled_is_backed_off(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    missing = {"container": {"image": "missing/image"}}
    api.create("pods", namespace, pod("a", node=kubelet.node, **missing))

    def waiting() -> Object:
        return dict(state_of(api.get("pods", namespace, "a")).get("waiting", {}))

    wait_until("a reason", waiting)
    assert waiting()["reason"] == "ImagePullBackOff" and "missing/image" in waiting()["message"]


def test_a_pod_that_is_active_for_too_long_is_ended(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    spec = {"activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 1}
    ended = run(api, namespace, kubelet, **spec)
    assert (ended["status"]["phase"], ended["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert not is_alive(process_of(kubelet))


def test_a_deleted_pod_gets_sigterm_and_stays_until_its_program_has_ended(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    script = f"""
        trap 'until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 0' TERM
        touch {tmp_path}/up
        sleep 1000 &
        wait"""
    api.create("pods", namespace, pod("a", "bash", "-c", script, node=kubelet.node))
    wait_until("it runs", (tmp_path / "up").exists)
    api.delete("pods", namespace, "a")
    assert "deletionTimestamp" in api.get("pods", namespace, "a")["metadata"]
    assert is_alive(process_of(kubelet))
    (tmp_path / "go").touch()
    wait_until("the Pod is gone", lambda: is_gone(api, "pods", namespace, "a"))
    assert not is_alive(process_of(kubelet))


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    script = f"trap '' TERM; touch {tmp_path}/up; while true; do sleep 0.1; done"
    api.create("pods", namespace, pod("a", "bash", "-c", script, node=kubelet.node))
    wait_until("it runs", (tmp_path / "up").exists)
    api.delete("pods", namespace, "a", gracePeriodSeconds=1)
    wait_until("the Pod is gone", lambda: is_gone(api, "pods", namespace, "a"))
    assert not is_alive(process_of(kubelet))


def test_an_evicted_pod_has_failed_and_says_why(api: Api, namespace: str, kubelet: Kubelet) -> None:
    api.create("pods", namespace, pod("a", node=kubelet.node, terminationGracePeriodSeconds=1))
    await_phase(api, namespace, "a", "Running")
    kubelet.worker("a").evict("The node was low on resource: memory.")
    ended = await_phase(api, namespace, "a", "Failed")
    assert ended["status"]["reason"] == "Evicted" and "memory" in ended["status"]["message"]


def test_a_program_that_took_too_much_memory_is_oom_killed(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    api.create("pods", namespace, pod("a", node=kubelet.node))
    await_phase(api, namespace, "a", "Running")
    kubelet.worker("a").kill_for_memory()
    end = state_of(await_phase(api, namespace, "a", "Failed"))["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled")


def test_a_node_without_power_says_nothing(api: Api, namespace: str, kubelet: Kubelet) -> None:
    api.create("pods", namespace, pod("a", node=kubelet.node))
    await_phase(api, namespace, "a", "Running")
    process = process_of(kubelet)
    kubelet.lose_power()
    assert not is_alive(process)
    assert api.get("pods", namespace, "a")["status"]["phase"] == "Running"
    api.delete("pods", namespace, "a", gracePeriodSeconds=1)
    assert not is_gone(api, "pods", namespace, "a")
    api.delete("pods", namespace, "a", gracePeriodSeconds=0)
    assert is_gone(api, "pods", namespace, "a")
