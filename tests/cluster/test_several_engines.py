"""One daemon with the engine of this machine and that of hosts that join."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.hosts import Service

from tests.conftest import Cluster, reserved_port, wait_until

HERE, JOINED = ("--constraint", "engine=local"), ("--constraint", "engine=hosts")


@pytest.fixture
def both(idle: Cluster, place: Path) -> Iterator[Cluster]:
    """This machine as one host of two devices; hosts may join."""
    shared = place / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    words = ("--engine", "local", "--engine", "hosts", "--hosts", "1x2", "--shared", str(shared))
    with reserved_port() as port:  # hosts keep the daemon's address
        idle.ok("serve", *words, "--port", str(port), "--detach")
        yield idle


def hosts_of(cluster: Cluster) -> dict[str, str]:
    """The engine of each host that takes runs."""
    listed = json.loads(cluster.ok("host", "ls", "--json"))["hosts"]
    return {host["id"]: host["engine"] for host in listed if not host["unavailable"]}


def engine_of(cluster: Cluster, run: str) -> str:
    return str(cluster.show(run)["attempts"][-1]["engine"])


def test_hosts_join_and_leave_beside_this_machine(both: Cluster, place: Path) -> None:
    [own] = hosts_of(both)
    waiting = both.ok("run", "--detach", "--nodes", "2", "--", "true", cwd="/").strip()
    services = [Service(both, place, name) for name in "ab"]
    try:
        for service in services:
            service.start()
        wait_until("they take runs", lambda: set(hosts_of(both)) == {own, "a", "b"})
        assert hosts_of(both) == {own: "local", "a": "hosts", "b": "hosts"}
        assert both.ended(waiting)["state"] == "succeeded"
        assert engine_of(both, waiting) == "hosts"
        here = both.ok("run", "--detach", *HERE, "--", "echo", "here", cwd="/").strip()
        there = both.ok("run", "--detach", *JOINED, "--", "echo", "there", cwd="/").strip()
        assert both.ended(here)["state"] == both.ended(there)["state"] == "succeeded"
        assert (engine_of(both, here), engine_of(both, there)) == ("local", "hosts")
        assert "engine hosts" in both.ok("map")
        both.kill_daemon()
        both.ok("serve", "--again", "--detach")
        wait_until("they take runs again", lambda: set(hosts_of(both)) == {own, "a", "b"})
        both.ok("host", "rm", "b", "--lost")
        assert set(hosts_of(both)) == {own, "a"}
    finally:
        for service in services:
            service.end()


def test_a_host_with_the_name_of_another_engines_is_refused(both: Cluster) -> None:
    [own] = hosts_of(both)
    refused = both.command("host", "token", own)
    assert refused.returncode != 0
    assert f"the engine local has a host '{own}': choose another name" in refused.stderr


def test_several_engines_need_a_shared_folder(idle: Cluster) -> None:
    refused = idle.command("serve", "--engine", "local,hosts", "--detach")
    assert refused.returncode != 0
    assert "several engines need --shared FOLDER" in refused.stderr
