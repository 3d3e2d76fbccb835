"""Hosts that do not answer: their runs continue elsewhere, and their devices stay taken."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.conftest import SETTINGS
from tests.cluster.hosts import Joined, agents_of

from tests.conftest import Cluster, is_alive, wait_until


@pytest.fixture
def three(idle: Cluster, place: Path) -> Iterator[Joined]:
    idle.ok("serve", "--engine", "hosts", "--port", "0", "--detach", *SETTINGS)
    made = Joined(idle, place, "abc")
    yield made
    made.end()


def kill_host(joined: Joined, name: str, run: str) -> None:
    """Its service, its agents and its ranks."""
    service = joined.service(name)
    service.end(signal.SIGKILL)
    for agent in agents_of(joined):
        if str(service.folder) in Path(f"/proc/{agent}/cmdline").read_text():
            os.kill(agent, signal.SIGKILL)
    for node in joined.cluster.show(run)["attempts"][-1]["nodes"]:
        for rank in node["ranks"] if node["host"] == name else []:
            wait_until("it is dead", lambda pid=rank["pid"]: not is_alive(pid))  # type: ignore[misc]


def holders(joined: Joined, host: str) -> str:
    return joined.cluster.ok("host", "ls", host)


def test_a_run_continues_on_other_hosts_when_one_dies(three: Joined, place: Path) -> None:
    cluster = three.cluster
    lost = place / "lost"
    script = f"[ -e {lost} ] && sleep 600; until [ -e {lost} ]; do sleep 0.05; done; kill -9 $$"
    run = three.submit(script, "--grace-period", "1s")
    cluster.running_ranks(run)
    dead = cluster.show(run)["attempts"][0]["nodes"][1]["host"]
    kill_host(three, dead, run)
    lost.touch()
    wait_until("the next attempt", lambda: len(cluster.show(run)["attempts"]) == 2)
    cluster.running_ranks(run)
    first, second = cluster.show(run)["attempts"]
    assert dead not in [node["host"] for node in second["nodes"]]
    assert first["state"] == "ended" and first["nodes"][1]["given_up_since"]
    assert "its host does not answer" in cluster.ok("show", run)
    assert f"given-up node of {run}" in holders(three, dead)
    three.service(dead).start()
    three.await_open()
    wait_until("its devices are free", lambda: "given-up" not in holders(three, dead))
    assert cluster.show(run)["attempts"][0]["nodes"][1]["given_up_since"] is None
    cluster.ok("stop", run)
    cluster.ended(run)


def test_a_host_that_is_declared_dead_is_replaced_at_once_and_comes_back(joined: Joined) -> None:
    cluster = joined.cluster
    run = joined.submit("sleep 600", nodes=1)
    (rank,) = cluster.running_ranks(run)
    (dead,) = [node["host"] for node in cluster.show(run)["attempts"][0]["nodes"]]
    refused = cluster.command("host", "dead", dead)
    assert refused.returncode == 2 and "add --yes if its machine is off" in refused.stderr
    joined.service(dead).end(signal.SIGKILL)
    assert "unavailable" in cluster.ok("host", "dead", dead, "--yes")
    again = cluster.running_ranks(run)
    assert again[0]["pid"] != rank["pid"]
    assert cluster.show(run)["attempts"][-1]["nodes"][0]["host"] != dead
    assert "was declared dead by" in cluster.show(run)["attempts"][0]["reason"]
    wait_until("its agent leaves", lambda: not is_alive(rank["pid"]))
    joined.service(dead).start()
    joined.await_open()
    cluster.ok("stop", run)
    cluster.ended(run)


def test_ranks_end_with_their_lease_while_the_daemon_is_away(idle: Cluster, place: Path) -> None:
    settings = (*SETTINGS, "--set", "unreachable_after=15s")
    serve = ("serve", "--engine", "hosts", "--detach", *settings)
    idle.ok(*serve, "--port", "0")
    joined = Joined(idle, place)
    try:
        refused = idle.command("run", "--lease", "5s", "--", "true")
        assert refused.returncode == 2 and "lease: must be 0s (never), or at least 15s" in (
            refused.stderr
        )
        runs = [joined.submit("sleep 600", "--lease", lease, nodes=1) for lease in ("15s", "never")]
        ends, stays = (idle.running_ranks(run)[0]["pid"] for run in runs)
        port = idle.url().split("#")[0].rpartition(":")[2]
        os.kill(idle.daemon_pid(), signal.SIGKILL)
        wait_until("its lease ends", lambda: not is_alive(ends))
        assert is_alive(stays)
        idle.ok(*serve, "--port", port)
        joined.await_open()
        wait_until("the next attempt", lambda: len(idle.show(runs[0])["attempts"]) == 2)
        assert "its lease" in idle.show(runs[0])["attempts"][0]["reason"]
        assert len(idle.show(runs[1])["attempts"]) == 1
        for run in runs:
            idle.ok("stop", run)
            idle.ended(run)
    finally:
        joined.end()
