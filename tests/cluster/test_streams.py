"""Byte streams to nodes: `lockstep forward`, and `lockstep stream` for ProxyCommand."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cluster, reserved_port, wait_until

SERVER = (
    "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='127.0.0.1')"
)


class Served:
    """A run whose rank serves its working folder over HTTP."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self.cluster = cluster
        self.port = port
        folder.mkdir()
        (folder / "file").write_bytes(os.urandom(3_000_000))
        self.content = (folder / "file").read_bytes()
        with (folder / "large").open("wb") as large:  # more than all buffers on the way
            large.truncate(1 << 30)
        code = SERVER.format(port=port)
        words = ("run", "--detach", "--", "python3", "-c", code)
        self.run = cluster.ok(*words, cwd=folder).strip()
        cluster.running_ranks(self.run)
        wait_until("the server of the rank answers", lambda: self.stream(b"").returncode == 0)

    def stream(self, sent: bytes, to: str = "") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.words(), to or str(self.port)],
            input=sent,
            capture_output=True,
            env=self.cluster.environment,
            timeout=PATIENCE,
        )

    def words(self) -> list[str]:
        return [str(self.cluster.program), "stream", self.run, "--to"]

    @contextlib.contextmanager
    def forwarded(self) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The command, and the address that it printed."""
        command = subprocess.Popen(
            [str(self.cluster.program), "forward", self.run, f"0:{self.port}", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.cluster.environment,
        )
        try:
            assert command.stdout
            yield command, json.loads(command.stdout.readline())["address"]
        finally:
            command.kill()
            command.communicate()


@pytest.fixture
def served(cluster: Cluster, tmp_path: Path) -> Iterator[Served]:
    with reserved_port() as port:
        yield Served(cluster, tmp_path / "served", port)


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}/file", timeout=PATIENCE) as answer:
        content: bytes = answer.read()
    return content


def is_fetched(address: str, content: bytes) -> bool:
    try:
        return fetched(address) == content
    except OSError:
        return False


def test_a_forwarded_port_reaches_a_server_of_a_rank_until_the_run_ends(served: Served) -> None:
    with served.forwarded() as (command, address):
        for _ in range(5):
            assert fetched(address) == served.content
        served.cluster.ok("stop", served.run)
        assert command.wait(PATIENCE) == 0
    assert "run.stream" in served.cluster.ok("audit")


def test_a_forward_outlives_a_killed_daemon_and_ends_by_control_c(served: Served) -> None:
    with served.forwarded() as (command, address):
        assert fetched(address) == served.content
        served.cluster.kill_daemon()
        assert not is_fetched(address, served.content)
        served.cluster.serve()
        wait_until("the port works again", lambda: is_fetched(address, served.content))
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE) == 0


def test_a_killed_daemon_is_an_error_of_an_open_stream(served: Served) -> None:
    with subprocess.Popen(
        [*served.words(), str(served.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=served.cluster.environment,
    ) as command:
        assert command.stdin and command.stdout and command.stderr
        command.stdin.write(b"GET /large HTTP/1.1\r\n\r\n")
        command.stdin.flush()
        assert command.stdout.read(4) == b"HTTP"
        served.cluster.kill_daemon()
        command.stdout.read()
        assert b"was cut" in command.stderr.read()
        assert command.wait(PATIENCE) == 3


def test_a_killed_agent_ends_its_streams(served: Served) -> None:
    agent = served.cluster.show(served.run)["attempts"][-1]["nodes"][0]["agent_pid"]
    with subprocess.Popen(
        [*served.words(), str(served.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=served.cluster.environment,
    ) as command:
        assert command.stdin and command.stdout and command.stderr
        command.stdin.write(b"GET /large HTTP/1.1\r\n\r\n")
        command.stdin.flush()
        assert command.stdout.read(4) == b"HTTP"
        os.kill(agent, signal.SIGKILL)
        command.stdout.read()
        assert command.wait(PATIENCE) != 0


def test_bytes_of_a_stream_arrive_with_its_end(served: Served) -> None:
    done = served.stream(b"GET /file HTTP/1.0\r\n\r\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(served.content)


def test_errors_of_a_stream_are_one_line(served: Served, cluster: Cluster) -> None:
    refused = served.stream(b"", to="1")
    assert refused.returncode == 1
    assert b"nothing answers at port 1 of the node" in refused.stderr
    for words in (["forward", served.run, "0"], ["forward", served.run + "/0/0", "80"]):
        assert cluster.command(*words).returncode == 2
    missing = cluster.command("forward", served.run + "/7", "0:80")
    assert f"{served.run} has no node 7; its nodes are 0 to 0" in missing.stderr
    assert missing.returncode == 2


def test_a_user_without_the_run_cannot_open_a_stream(served: Served, cluster: Cluster) -> None:
    cluster.ok("user", "add", "eve")
    token = json.loads(cluster.ok("token", "create", "--user", "eve", "--json"))["token"]
    project, number = served.run.split("/")
    target = f"/api/v1/runs/{project}/{number}/nodes/0/stream?port={served.port}"
    connection = http.client.HTTPConnection("127.0.0.1", cluster.daemon_port(), timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(
            "GET",
            target,
            headers={
                "Authorization": f"Bearer {token}",
                "Connection": "Upgrade",
                "Upgrade": "lockstep-stream",
            },
        )
        assert connection.getresponse().status == 404
