"""Submissions whose answer is lost on its way back, or comes too late for Ctrl-C."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.api.calls import ask, user_token

from tests.conftest import PROGRAM, Cluster


class Front(BaseHTTPRequestHandler):
    """A proxy in front of a daemon that forwards calls."""

    protocol_version = "HTTP/1.1"
    daemon: Cluster
    posted: list[str]
    loses_answer: Callable[[], bool]  # to a POST; asked when the daemon has answered it

    def do_GET(self) -> None:
        nonce = parse_qs(urlsplit(self.path).query).get("nonce")
        if nonce:
            self.reply(200, json.dumps({"status": "ok", "proof": self.proof(nonce[0])}).encode())
        else:
            self.pass_on(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.posted.append(body)
        self.pass_on(body)

    def pass_on(self, body: str | None) -> None:
        answer = ask(self.daemon, self.command, self.path, body)
        if body is not None and self.loses_answer():
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.reply(answer.status, answer.body)

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def proof(self, nonce: str) -> str:
        """The request id as docs/design/api.md defines it."""
        key = hashlib.sha256(user_token(self.daemon).encode()).digest()
        port = self.connection.getsockname()[1]
        return hmac.new(key, f"daemon at port {port}: {nonce}".encode(), hashlib.sha256).hexdigest()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def front_of(
    daemon: Cluster, home: Path, posted: list[str], loses_answer: Callable[[], bool]
) -> Iterator[None]:
    """A home whose daemon is the proxy; `posted` gets the bodies of its POST requests."""
    shared = {"daemon": daemon, "posted": posted, "loses_answer": staticmethod(loses_answer)}
    handler = type("FrontOfIt", (Front,), shared)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        home.mkdir()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        (home / "daemon.json").write_text(
            json.dumps({"url": url, "pid": os.getpid(), "version": "0"})
        )
        (home / "token").write_text(user_token(daemon))
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_a_submission_whose_answer_is_lost_makes_one_run(cluster: Cluster, tmp_path: Path) -> None:
    home = tmp_path / "front"
    posted: list[str] = []
    with front_of(cluster, home, posted, lambda: len(posted) == 1):
        assert Cluster(home).submit("--", "true") == "default/1"
    assert len(posted) == 2 and posted[0] == posted[1]
    assert json.loads(posted[0])["request_id"]
    assert [run["id"] for run in json.loads(cluster.ok("ps", "--json"))["runs"]] == ["default/1"]


def test_ctrl_c_while_a_run_is_submitted_tells_how_to_come_back_to_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Ctrl-C comes when the run exists and the command does not know its name yet."""
    home = tmp_path / "front"
    started = threading.Event()
    processes: list[subprocess.Popen[str]] = []

    def interrupt() -> bool:
        assert started.wait(20)
        processes[0].send_signal(signal.SIGINT)
        return False

    with front_of(cluster, home, [], interrupt):
        process = subprocess.Popen(
            [str(PROGRAM), "run", "--", "sleep", "1000"],
            env=Cluster(home).environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        started.set()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "lockstep logs -f default/1" in said
    assert [run["id"] for run in json.loads(cluster.ok("ps", "--json"))["runs"]] == ["default/1"]
