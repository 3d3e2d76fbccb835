"""One boot of four hosts for all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.cluster import Cluster
from tests.hosts.commands import make_tarball
from tests.hosts.host import Host
from tests.hosts.sandbox import Unavailable
from tests.hosts.testbed import Testbed

from tests.conftest import BUILD


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    try:
        with Testbed(4, (BUILD,)) as made:
            yield made
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tarball(tmp_path_factory.mktemp("package"))


@pytest.fixture
def hosts(testbed: Testbed) -> list[Host]:
    """All of them run at the beginning of each test."""
    for host in testbed.hosts:
        if not host.is_running():
            host.boot()
    return testbed.hosts


@pytest.fixture(scope="module")
def joined(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A daemon and its four hosts, for the tests of a file."""
    with Cluster(testbed, tmp_path_factory.mktemp("joined")) as made:
        made.add(*testbed.hosts)
        yield made


@pytest.fixture
def cluster(joined: Cluster, hosts: list[Host]) -> Cluster:
    """All four hosts have joined, take runs and have all devices free."""
    for host in hosts:
        joined.keep_served(host)
        joined.await_host(
            host, lambda view: not view["unavailable"] and view["free"] == view["devices"]
        )
    return joined
