"""The faults that the stub injects, and a kubelet that outlives them."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

import pytest
from tests.kubernetes.api import Api, Refused
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.objects import await_phase, config_map, is_gone, pod
from tests.kubernetes.stub_faults import Fault
from tests.kubernetes.stub_server import StubServer


@pytest.fixture
def stub_api(stub: StubServer) -> Api:
    return Api(stub.kubeconfig)


@pytest.mark.parametrize("status", [401, 409, 410, 429, 500])
def test_an_injected_status_is_answered_once_and_nothing_is_done(
    stub: StubServer, stub_api: Api, status: int
) -> None:
    stub.faults.add(Fault("POST", "configmaps", status=status, retry_after=7))
    with pytest.raises(Refused) as caught:
        stub_api.create("configmaps", "default", config_map("a"))
    assert caught.value.code == status and caught.value.headers["Retry-After"] == "7"
    assert is_gone(stub_api, "configmaps", "default", "a")
    stub_api.create("configmaps", "default", config_map("a"))


def test_a_lost_answer_leaves_the_object_behind(stub: StubServer, stub_api: Api) -> None:
    stub.faults.add(Fault("POST", "configmaps", loses_answer=True))
    with pytest.raises((http.client.HTTPException, OSError)):
        stub_api.create("configmaps", "default", config_map("a"))
    with pytest.raises(Refused) as again:
        stub_api.create("configmaps", "default", config_map("a"))
    assert again.value.reason == "AlreadyExists"


def test_a_request_that_comes_twice_is_answered_by_the_second_result(
    stub: StubServer, stub_api: Api
) -> None:
    stub.faults.add(Fault("POST", "configmaps", repeats=True))
    with pytest.raises(Refused) as caught:
        stub_api.create("configmaps", "default", config_map("a"))
    assert caught.value.reason == "AlreadyExists"
    assert not is_gone(stub_api, "configmaps", "default", "a")


def test_a_late_answer_is_late(stub: StubServer, stub_api: Api) -> None:
    stub.faults.add(Fault("GET", "configmaps", delay=0.4))
    begin = time.monotonic()
    stub_api.list("configmaps", "default")
    assert time.monotonic() - begin >= 0.4


def test_a_watch_is_cut_after_some_events(stub: StubServer, stub_api: Api) -> None:
    begin = stub_api.list("configmaps", "default")["metadata"]["resourceVersion"]
    for name in "abc":
        stub_api.create("configmaps", "default", config_map(name))
    stub.faults.add(Fault("GET", "watch=true", cuts_after=2))
    seen = []
    with pytest.raises(ConnectionError):
        for event in stub_api.watch("configmaps", "default", resourceVersion=begin):
            seen.append(event["object"]["metadata"]["name"])
    assert seen == ["a", "b"]


def test_a_running_watch_that_history_has_left_behind_gets_410(
    stub: StubServer, stub_api: Api
) -> None:
    begin = stub_api.list("configmaps", "default")["metadata"]["resourceVersion"]
    stub.store.forget()
    [event] = stub_api.watch("configmaps", "default", resourceVersion=begin)
    assert event["type"] == "ERROR" and event["object"]["reason"] == "Expired"


def test_a_replaced_token_is_answered_by_401_until_it_is_read_again(
    stub: StubServer, stub_api: Api
) -> None:
    stub.replace_token("second")
    with pytest.raises(Refused) as caught:
        stub_api.list("pods", "default")
    assert caught.value.code == 401
    stub_api.read_kubeconfig()
    assert stub_api.list("pods", "default")["items"] == []


def test_a_kubelet_outlives_errors_cut_watches_and_forgotten_versions(
    stub: StubServer, stub_api: Api, tmp_path: Path
) -> None:
    with Kubelet(stub_api, "node", tmp_path, {}) as kubelet:
        stub.faults.add(Fault("GET", "pods.*watch=true", times=2, cuts_after=1))
        stub.faults.add(Fault("PATCH", "pods/.*/status", times=2, status=500))
        stub.faults.add(Fault("DELETE", "pods/", times=1, status=429, retry_after=1))
        for name in "abc":
            stub_api.create("pods", "default", pod(name, "true", node=kubelet.node))
        stub.store.forget()
        for name in "abc":
            await_phase(stub_api, "default", name, "Succeeded")
