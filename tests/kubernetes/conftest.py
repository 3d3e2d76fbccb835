"""An API server for the tests of a session, and Nodes of test kubelets.

It is the stub, or the real control plane in the folder that LOCKSTEP_CONTROL_PLANE names
(./dev check kubernetes): each test states what holds on both.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kubernetes.api import Api
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.stub_server import StubServer

MakeNode = Callable[..., Kubelet]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane | StubServer]:
    folder = os.environ.get("LOCKSTEP_CONTROL_PLANE")
    if folder:
        with ControlPlane(Path(folder)) as plane:
            yield plane
    else:
        with StubServer(tmp_path_factory.mktemp("stub")) as stub:
            yield stub


@pytest.fixture(scope="session")
def api(server: ControlPlane | StubServer) -> Api:
    return Api(server.kubeconfig)


@pytest.fixture
def namespace(api: Api) -> str:
    """One for each test; it is left to the end of the server."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.create("namespaces", "", {"metadata": {"name": name}})
    return name


@pytest.fixture
def make_node(api: Api, tmp_path: Path) -> Iterator[MakeNode]:
    """Makes a Node with a kubelet; its name begins with the given one."""
    with ExitStack() as stack:

        def make(name: str = "node", devices: int = 8) -> Kubelet:
            node = f"{name}-{uuid.uuid4().hex[:6]}"
            kubelet = Kubelet(api, node, tmp_path, {"nvidia.com/gpu": str(devices)})
            stack.callback(api.delete, "nodes", "", node)
            return stack.enter_context(kubelet)

        yield make


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[StubServer]:
    """A stub of its own, for tests of what it breaks."""
    with StubServer(tmp_path) as made:
        yield made
