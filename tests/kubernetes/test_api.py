"""The behaviour of an API server that Lockstep relies on, of the stub and of the real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.kubernetes.api import Api, Object, Refused
from tests.kubernetes.conftest import MakeNode
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.objects import await_phase, config_map, is_gone, pod
from tests.kubernetes.stub_server import StubServer

from tests.conftest import wait_until


def refused(call: object, *arguments: object, **options: object) -> Refused:
    with pytest.raises(Refused) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    return caught.value


def version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


def test_a_second_create_of_a_name_is_answered_by_409(api: Api, namespace: str) -> None:
    made = api.create("configmaps", namespace, config_map("a"))
    assert made["metadata"]["uid"] and version(made)
    again = refused(api.create, "configmaps", namespace, config_map("a"))
    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert version(api.get("configmaps", namespace, "a")) == version(made)


def test_what_is_not_there_is_answered_by_404(api: Api, namespace: str) -> None:
    for call in (api.get, api.delete):
        missing = refused(call, "configmaps", namespace, "a")
        assert (missing.code, missing.reason) == (404, "NotFound")


def test_an_object_in_a_namespace_that_does_not_exist_is_refused(api: Api) -> None:
    assert refused(api.create, "configmaps", "no-such", config_map("a")).code == 404


def test_a_wrong_token_is_answered_by_401(api: Api, namespace: str) -> None:
    stranger = Api(api.kubeconfig)
    stranger.token = "wrong"
    assert refused(stranger.list, "pods", namespace).code == 401


def test_a_name_that_is_no_dns_name_is_answered_by_422(api: Api, namespace: str) -> None:
    assert refused(api.create, "configmaps", namespace, config_map("A_b")).code == 422


def test_a_change_of_an_old_version_is_answered_by_409(api: Api, namespace: str) -> None:
    old = api.create("configmaps", namespace, config_map("a"))
    new = api.replace("configmaps", namespace, {**old, "data": {"key": "new"}})
    conflict = refused(api.replace, "configmaps", namespace, {**old, "data": {"key": "other"}})
    assert (conflict.code, conflict.reason) == (409, "Conflict")
    assert version(new) != version(old)
    assert api.get("configmaps", namespace, "a")["data"] == {"key": "new"}


def test_a_patch_removes_with_null_and_keeps_the_rest(api: Api, namespace: str) -> None:
    labels = {"a": "1", "b": "2"}
    api.create("configmaps", namespace, config_map("a", labels=labels))
    change = {"metadata": {"labels": {"a": None, "c": "3"}}}
    changed = api.patch("configmaps", namespace, "a", change)
    assert changed["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert changed["data"] == {"key": "value"}


def test_a_list_has_what_its_label_selector_names(api: Api, namespace: str) -> None:
    for name, labels in {"a": {"run": "1"}, "b": {"run": "2", "x": "y"}, "c": {}}.items():
        api.create("configmaps", namespace, config_map(name, labels=labels))

    def listed(selector: str) -> str:
        found = api.list("configmaps", namespace, labelSelector=selector)["items"]
        names = [item["metadata"]["name"] for item in found]
        return "".join(name for name in sorted(names) if len(name) == 1)

    assert listed("run=1") == "a" and listed("run==2,x=y") == "b"
    assert listed("run!=1") == "bc" and listed("run") == "ab" and listed("!run") == "c"
    assert listed("run in (1,2)") == "ab" and listed("run notin (1)") == "bc"


def test_a_secret_keeps_its_data_in_base64(api: Api, namespace: str) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"token": "abc"}}
    api.create("secrets", namespace, secret)
    assert api.get("secrets", namespace, "s")["data"] == {"token": "YWJj"}


def test_a_watch_tells_every_change_after_its_version(api: Api, namespace: str) -> None:
    begin = version(api.list("configmaps", namespace))
    api.create("configmaps", namespace, config_map("a", labels={"run": "1"}))
    api.create("configmaps", namespace, config_map("b"))
    api.patch("configmaps", namespace, "a", {"data": {"key": "new"}})
    api.delete("configmaps", namespace, "a")
    options = {"resourceVersion": begin, "timeoutSeconds": "3", "labelSelector": "run=1"}
    events = list(api.watch("configmaps", namespace, **options))
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(version(event["object"])) for event in events]
    assert versions == sorted(versions) and versions[0] > int(begin)
    # From the version of an event on, the watch tells the rest.
    options["resourceVersion"] = str(versions[0])
    assert [e["type"] for e in api.watch("configmaps", namespace, **options)] == [
        "MODIFIED",
        "DELETED",
    ]


@pytest.fixture
def changes_elsewhere(api: Api) -> Iterator[None]:
    """ConfigMaps of the namespace `default` change all the time."""
    is_ending = threading.Event()

    def change() -> None:
        while not is_ending.wait(0.1):
            api.create("configmaps", "default", {"metadata": {"generateName": "other-"}})

    thread = threading.Thread(target=change)
    thread.start()
    yield
    is_ending.set()
    thread.join()


def test_a_watch_tells_the_version_of_changes_elsewhere_by_bookmarks(
    api: Api, namespace: str, changes_elsewhere: None
) -> None:
    begin = version(api.list("configmaps", namespace))
    options = {"resourceVersion": begin, "timeoutSeconds": "5", "labelSelector": "run=1"}
    watched = api.watch("configmaps", namespace, allowWatchBookmarks="true", **options)
    bookmarks = list(watched)
    assert {event["type"] for event in bookmarks} == {"BOOKMARK"}
    assert int(version(bookmarks[-1]["object"])) > int(begin)


def test_a_watch_from_a_forgotten_version_is_answered_by_410(
    api: Api, namespace: str, server: ControlPlane | StubServer
) -> None:
    begin = version(api.list("services", namespace))
    service = {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    api.create("services", namespace, service)
    server.forget()
    try:
        options = {"resourceVersion": begin, "timeoutSeconds": "3"}
        [event] = api.watch("services", namespace, **options)
        assert event["type"] == "ERROR"
        code = event["object"]["code"]
    except Refused as answer:
        code = answer.code
    assert code == 410


def test_a_delete_with_another_uid_is_answered_by_409(api: Api, namespace: str) -> None:
    made = api.create("configmaps", namespace, config_map("a"))
    other = {"uid": "00000000-0000-0000-0000-000000000000"}
    assert refused(api.delete, "configmaps", namespace, "a", preconditions=other).code == 409
    api.delete("configmaps", namespace, "a", preconditions={"uid": made["metadata"]["uid"]})
    assert is_gone(api, "configmaps", namespace, "a")


def test_what_an_object_owns_is_deleted_after_it(api: Api, namespace: str) -> None:
    owner = api.create("configmaps", namespace, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    owned = {"ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}]}
    api.create("configmaps", namespace, config_map("other"))
    api.create("secrets", namespace, {"metadata": {"name": "owned", **owned}})
    whole = pod("owned", node="no-such-node")
    api.create("pods", namespace, {**whole, "metadata": {"name": "owned", **owned}})
    api.delete("configmaps", namespace, "owner", propagationPolicy="Background")
    for resource in ("secrets", "pods"):
        wait_until(f"{resource} are gone", lambda r=resource: is_gone(api, r, namespace, "owned"))
    assert not is_gone(api, "configmaps", namespace, "other")


def test_only_requests_to_its_status_change_a_status(api: Api, namespace: str) -> None:
    api.create("pods", namespace, pod("a", node="no-such-node"))
    both = {"metadata": {"labels": {"x": "y"}}, "status": {"message": "m"}}
    changed = api.patch("pods", namespace, "a", both)
    assert "message" not in changed["status"] and changed["metadata"]["labels"] == {"x": "y"}
    changed = api.patch("pods", namespace, "a", {"status": {"message": "m"}}, "status")
    assert changed["status"]["message"] == "m"


def test_a_pod_without_a_node_goes_at_once(api: Api, namespace: str) -> None:
    api.create("pods", namespace, pod("a", node="no-such-node"))
    api.delete("pods", namespace, "a")
    assert is_gone(api, "pods", namespace, "a")


def scheduled(api: Api, namespace: str, name: str) -> Object:
    conditions = api.get("pods", namespace, name)["status"].get("conditions", [])
    return next((dict(each) for each in conditions if each["type"] == "PodScheduled"), {})


def test_a_pod_is_bound_to_the_node_that_its_affinity_names(
    api: Api, namespace: str, make_node: MakeNode
) -> None:
    nodes = [make_node() for _ in range(2)]
    for kubelet in nodes:
        api.create("pods", namespace, pod(kubelet.node, node=kubelet.node))
    for kubelet in nodes:
        running = await_phase(api, namespace, kubelet.node, "Running")
        assert running["spec"]["nodeName"] == kubelet.node


def test_a_pod_waits_while_the_devices_of_its_node_are_taken(
    api: Api, namespace: str, make_node: MakeNode
) -> None:
    node = make_node(devices=4).node
    limits = {"container": {"resources": {"limits": {"nvidia.com/gpu": 3}}}}
    api.create("pods", namespace, pod("first", node=node, **limits))
    await_phase(api, namespace, "first", "Running")
    api.create("pods", namespace, pod("second", node=node, **limits))
    wait_until("its condition", lambda: scheduled(api, namespace, "second"))
    condition = scheduled(api, namespace, "second")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    api.delete("pods", namespace, "first", gracePeriodSeconds=1)
    await_phase(api, namespace, "second", "Running")
