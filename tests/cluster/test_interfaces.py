"""Which way ranks of several hosts take to each other: hosts are network namespaces that have other
interfaces, too, as machines with containers and several networks do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "bench"))

from _contest.network import Host, Network, Unavailable

SUM = BUILD / "bin" / "sum"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Four hosts, each with a bridge of containers that has the same address on all of them."""
    try:
        with Network(4, None) as made:
            for host in made.hosts:
                add_interface(host, "docker0", "172.17.0.1/16")
            yield made
    except Unavailable as why:
        pytest.skip(str(why))


def add_interface(host: Host, name: str, address: str) -> None:
    """An interface that is up and has no peer."""
    host.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-end")
    host.run("ip", "link", "set", f"{name}-end", "up")
    host.run("ip", "address", "add", address, "dev", name)
    host.run("ip", "link", "set", name, "up")
    host.await_link(name)


def join_directly(first: Host, second: Host) -> None:
    """Through a second network, eth1 on both."""
    first.run("ip", "link", "add", "eth1", "type", "veth", "peer", "eth1", "netns", second.pid)
    for number, host in enumerate((first, second), 1):
        host.run("ip", "address", "add", f"10.88.0.{number}/24", "dev", "eth1")
        host.run("ip", "link", "set", "eth1", "up")
    for host in (first, second):
        host.await_link("eth1")


class Rank:
    """A rank of the example `sum`, on a host."""

    def __init__(self, host: Host, rank: int, size: int, folder: Path, **settings: str) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "10.77.0.1",
            "MASTER_PORT": "29500",
            "LOCKSTEP_HOST_ID": host.address,
            "LOCKSTEP_MEETING_FOLDER": str(folder),
        }
        self._process = subprocess.Popen(
            host.within(str(SUM)),
            env=environment | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[str, str]:
        """Its standard output, and its log or error."""
        try:
            return self._process.communicate(timeout=60)
        finally:
            self._process.kill()


def start(hosts: list[Host], folder: Path, **settings: str) -> list[Rank]:
    return [Rank(host, rank, len(hosts), folder, **settings) for rank, host in enumerate(hosts)]


def test_ranks_meet_over_the_interface_that_leads_to_their_meeting_place(
    network: Network, tmp_path: Path
) -> None:
    ended = [rank.end() for rank in start(network.hosts, tmp_path)]
    assert ended[0][0] == "4 ranks: 1 + ... + 4 = 10\n", ended
    assert "fabric: tcp over eth0 (10.77.0.1), world\n" in ended[0][1]
    assert all("fabric" not in logged for _, logged in ended[1:]), "told once for a group"


def test_the_interface_that_is_set_is_used_by_all_ranks(network: Network, tmp_path: Path) -> None:
    first, second, *_ = network.hosts
    join_directly(first, second)
    ended = [rank.end() for rank in start([first, second], tmp_path, LOCKSTEP_INTERFACE="eth1")]
    assert ended[0][0] == "2 ranks: 1 + ... + 2 = 3\n", ended
    assert "fabric: tcp over eth1 (10.88.0.1)" in ended[0][1]


def test_an_interface_that_others_do_not_reach_is_named_with_the_remedy(
    network: Network, tmp_path: Path
) -> None:
    add_interface(network.hosts[1], "lab0", "192.168.50.2/24")
    wrong = {1: {"LOCKSTEP_INTERFACE": "lab0"}}
    ranks = [
        Rank(host, number, 3, tmp_path, **wrong.get(number, {}))
        for number, host in enumerate(network.hosts[:3])
    ]
    reason = "Network is unreachable, from eth0 (10.77.0.3): is this the network"
    for said, logged in [rank.end() for rank in ranks]:
        assert "ranks:" not in said
        assert "meeting rank 1: connecting to 192.168.50.2:" in logged
        assert reason in logged
        assert "LOCKSTEP_INTERFACE" in logged


def test_ranks_of_several_hosts_keep_to_a_range_of_ports(network: Network, tmp_path: Path) -> None:
    # Rank 0 needs three: for the rendezvous, for incoming connections, and for their data.
    first, second, *_ = network.hosts
    ranks = start([first, second], tmp_path, LOCKSTEP_PORT_RANGE="24000-24002")
    ended = [rank.end() for rank in ranks]
    assert ended[0][0] == "2 ranks: 1 + ... + 2 = 3\n", ended


def test_a_range_of_ports_that_is_too_small_ends_the_start_with_the_remedy(
    network: Network, tmp_path: Path
) -> None:
    first, second, *_ = network.hosts
    ended = [
        rank.end() for rank in start([first, second], tmp_path, LOCKSTEP_PORT_RANGE="24000-24001")
    ]
    assert "no port of 24000-24001 is free on 10.77.0.1: end what holds them" in ended[0][1], ended
