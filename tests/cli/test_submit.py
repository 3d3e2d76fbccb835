"""A submission whose answer is lost on its way back: the run is made, and made once."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.api.calls import ask, user_token

from tests.conftest import Cluster


class Front(BaseHTTPRequestHandler):
    """Stands before a daemon and passes calls on; the answer to the first POST gets lost."""

    protocol_version = "HTTP/1.1"
    daemon: Cluster
    posted: list[str]

    def do_GET(self) -> None:
        nonce = parse_qs(urlsplit(self.path).query).get("nonce")
        if nonce:
            self.reply(200, json.dumps({"status": "ok", "proof": self.proof(nonce[0])}).encode())
        else:
            self.pass_on(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.posted.append(body)
        self.pass_on(body, lost=len(self.posted) == 1)

    def pass_on(self, body: str | None, lost: bool = False) -> None:
        answer = ask(self.daemon, self.command, self.path, body)
        if lost:
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
        """As docs/design/api.md says it is made."""
        key = hashlib.sha256(user_token(self.daemon).encode()).digest()
        port = self.connection.getsockname()[1]
        return hmac.new(key, f"daemon at port {port}: {nonce}".encode(), hashlib.sha256).hexdigest()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def front_of(daemon: Cluster, home: Path) -> Iterator[list[str]]:
    """A home whose daemon is the front; yields the bodies that it was posted."""
    posted: list[str] = []
    handler = type("FrontOfIt", (Front,), {"daemon": daemon, "posted": posted})
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
            yield posted
        finally:
            server.shutdown()
            thread.join()


def test_a_submission_whose_answer_is_lost_makes_one_run(cluster: Cluster, tmp_path: Path) -> None:
    home = tmp_path / "front"
    with front_of(cluster, home) as posted:
        assert Cluster(home).submit("--", "true") == "default/1"
    assert len(posted) == 2 and posted[0] == posted[1]
    assert json.loads(posted[0])["request_id"]
    assert [run["id"] for run in json.loads(cluster.ok("ps", "--json"))["runs"]] == ["default/1"]
