"""Host services of this machine that join a daemon: orders, reports, and the files of nodes.

A service that runs as root starts no rank as root, so tests of root use an account without rights.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster, is_alive, wait_until

AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


class Service:
    """A host service with a folder of its own."""

    def __init__(self, cluster: Cluster, place: Path, name: str) -> None:
        self.name = name
        home = place / name
        self.folder = home / "host"
        self._within = [*(AS_NOBODY if os.geteuid() == 0 else ()), str(place / "lockstep")]
        self._environment = {
            **cluster.environment,
            "LOCKSTEP_HOME": str(home),
            "HOME": str(place),
            "XDG_RUNTIME_DIR": "",
        }
        self._process: subprocess.Popen[bytes] | None = None
        token = cluster.ok("host", "token", name, "--pod", "left")
        url = cluster.url()
        done = self.command("host", "join", url, "--address", "127.0.0.1", stdin=token)
        assert done.returncode == 0, done.stderr

    def command(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._within, *words],
            env=self._environment,
            cwd="/",
            input=stdin,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, "host", "serve"],
                env=self._environment,
                cwd="/",
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(timeout=PATIENCE)

    def log(self) -> str:
        return (self.folder / "log").read_text()


class Joined:
    """A daemon and two hosts, a and b."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.services = [Service(cluster, folder, name) for name in ("a", "b")]
        for service in self.services:
            service.start()
        self.await_open()

    def hosts(self) -> dict[str, str]:
        """Why each cannot be used; empty: it can."""
        listed = json.loads(self.cluster.ok("host", "ls", "--json"))["hosts"]
        return {host["id"]: host["unavailable"] for host in listed}

    def await_open(self) -> None:
        wait_until("both are open", lambda: list(self.hosts().values()) == ["", ""])

    def submit(self, script: str, nodes: int = 2) -> str:
        size = ("--nodes", str(nodes), "--devices", "1")
        return self.cluster.ok("run", "--detach", *size, "--", "sh", "-c", script, cwd="/").strip()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the user of the services, with a program that it can read."""
    # The temporary folder of the tests may be private to root.
    with tempfile.TemporaryDirectory(prefix="lockstep-hosts-", dir="/tmp") as name:
        shutil.copy(PROGRAM, Path(name) / "lockstep")
        Path(name).chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(name, "nobody", "nogroup")
        yield Path(name)


@pytest.fixture
def joined(idle: Cluster, place: Path) -> Iterator[Joined]:
    settings = ("--set", "host_silent_after=3s")
    idle.ok("serve", "--engine", "hosts", "--port", "0", "--detach", *settings)
    made = Joined(idle, place)
    yield made
    for service in made.services:
        service.end(signal.SIGKILL)


def test_hosts_join_take_a_run_and_clean_up_after_it(joined: Joined) -> None:
    cluster = joined.cluster
    assert "pod left" in cluster.ok("map")
    run = joined.submit("echo rank $RANK on $LOCKSTEP_HOST_ID")
    assert cluster.ended(run)["state"] == "succeeded"
    assert sorted(cluster.logs(run)) == ["[0] rank 0 on a", "[1] rank 1 on b"]
    for service in joined.services:
        nodes = [path.parent for path in service.folder.glob("runs/*/*/*/attempt-1/*/agent.lock")]
        assert len(nodes) == 1
        wait_until("it is clean", lambda n=nodes[0]: not (n / "launch.json").exists())  # type: ignore[misc]
        assert not (nodes[0] / "spool").exists() and not (nodes[0] / "secret").exists()
    assert not (cluster.home / "runs").exists()


def test_a_service_that_ends_or_is_killed_leaves_its_nodes_and_finds_them_again(
    joined: Joined, place: Path
) -> None:
    done = place / "done"
    run = joined.submit(f"until [ -e {done} ]; do sleep 0.05; done; echo ended")
    joined.cluster.running_ranks(run)
    first, second = joined.services
    assert first.end() == 0 and "agents and ranks go on" in first.log()
    second.end(signal.SIGKILL)
    wait_until(
        "both are silent", lambda: all("not called" in why for why in joined.hosts().values())
    )
    for service in joined.services:
        service.start()
    joined.await_open()
    done.touch()
    view = joined.cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
    assert sorted(joined.cluster.logs(run)) == ["[0] ended", "[1] ended"]


def test_the_lines_of_a_killed_agent_reach_the_daemon(joined: Joined) -> None:
    cluster = joined.cluster
    run = joined.submit("echo before; sleep 600")
    ranks = cluster.running_ranks(run)
    wait_until("the lines are there", lambda: len(cluster.logs(run)) == 2)
    pid = cluster.daemon_pid()
    os.kill(pid, signal.SIGSTOP)  # it takes no items
    for rank in ranks:
        os.kill(rank["pid"], signal.SIGKILL)
    for agent in agents_of(joined):
        os.kill(agent, signal.SIGKILL)
        wait_until("it is dead", lambda a=agent: not is_alive(a))  # type: ignore[misc]
    os.kill(pid, signal.SIGCONT)
    cluster.ok("stop", run)
    cluster.ended(run)
    for service in joined.services:
        wait_until(
            "its spool was delivered",
            lambda s=service: not list(s.folder.glob("runs/*/*/*/*/*/spool")),  # type: ignore[misc]
        )
    assert sorted(cluster.logs(run))[:2] == ["[0] before", "[1] before"]


def agents_of(joined: Joined) -> list[int]:
    """The agents hold the lock of their node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"agent":
                folders = [str(service.folder).encode() for service in joined.services]
                if any(words[2].startswith(folder) for folder in folders):
                    found.append(int(entry.name))
    return found


def test_a_second_service_and_a_host_that_has_not_joined_are_errors(joined: Joined) -> None:
    again = joined.services[0].command("host", "serve")
    assert again.returncode != 0 and "a host service runs already" in again.stderr
    (joined.services[0].folder / "host.json").rename(joined.services[0].folder / "aside")
    missing = joined.services[0].command("host", "serve")
    assert missing.returncode != 0 and "`lockstep host token NAME`" in missing.stderr


def test_a_daemon_of_its_own_machine_takes_no_host(cluster: Cluster) -> None:
    refused = cluster.command("host", "token", "gpu1")
    assert refused.returncode == 2 and "--engine hosts" in refused.stderr


def test_a_run_starts_again_without_a_host_that_an_operator_removes_as_lost(
    joined: Joined,
) -> None:
    cluster = joined.cluster
    run = joined.submit("sleep 600", nodes=1)
    (rank,) = cluster.running_ranks(run)
    (lost,) = [node["host"] for node in cluster.show(run)["attempts"][0]["nodes"]]
    service = next(service for service in joined.services if service.name == lost)
    service.end(signal.SIGKILL)
    for pid in [*agents_of(joined), rank["pid"]]:
        os.kill(pid, signal.SIGKILL)
    wait_until("the host is silent", lambda: "not called" in joined.hosts()[lost])
    assert "is off the map" in cluster.ok("host", "rm", lost, "--lost")
    assert lost not in joined.hosts()
    again = cluster.running_ranks(run)
    assert len(again) == 1 and again[0]["pid"] != rank["pid"]
    assert cluster.show(run)["attempts"][-1]["nodes"][0]["host"] != lost
    cluster.ok("stop", run)
    cluster.ended(run)
