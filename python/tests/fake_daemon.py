"""A daemon for tests of the client: it proves that it knows its token, and answers from a table."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "lst_" + "a" * 12 + "_" + "s" * 43
Answer = tuple[int, Any]  # status; what becomes JSON, or bytes as they are
Route = Callable[[Mapping[str, str]], Answer]


class FakeDaemon(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, secret: str = "s" * 43) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.secret = secret
        self.routes: dict[str, Route] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.tokens: set[str] = set()
        self.closes_after_health = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, body: Any, status: int = 200) -> None:
        self.routes["/api/v1/" + path] = lambda _: (status, body)

    def queries(self, path: str) -> list[dict[str, str]]:
        return [query for called, query in self.calls if called == "/api/v1/" + path]

    def write_home(self, folder: Path, **fields: Any) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "daemon.json").write_text(json.dumps({"url": self.url, "pid": 1} | fields))
        (folder / "token").write_text(TOKEN + "\n")
        return folder

    def proof(self, nonce: str) -> str:
        key = hashlib.sha256(self.secret.encode()).digest()
        words = f"daemon at port {self.server_port}: {nonce}"
        return hmac.new(key, words.encode(), "sha256").hexdigest()

    @contextmanager
    def serving(self) -> Iterator[FakeDaemon]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FakeDaemon
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if token := self.headers.get("Authorization"):
            self.server.tokens.add(token)
        if parts.path == "/health":
            self._send(200, {"status": "ok", "proof": self.server.proof(query["nonce"])})
            return
        self.server.calls.append((parts.path, query))
        route = self.server.routes.get(parts.path)
        if route is None:
            self._send(404, {"error": {"code": "not_found", "message": f"no {parts.path}"}})
        else:
            self._send(*route(query))

    def _send(self, status: int, body: Any) -> None:
        words = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(words)))
        if self.server.closes_after_health and self.path.startswith("/health"):
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


def run_view(run: str = "demo/7", **fields: Any) -> dict[str, Any]:
    spec = {"project": "demo", "command": ["python", "train.py"], "nodes": 1, "devices": 1}
    return {
        "id": run,
        "state": "succeeded",
        "spec": spec,
        "origin": {"user": "ann"},
        "tags": {},
        "latest": {"loss": 0.5},
        "attempts": [{"epoch": 1, "created": "2026-11-22T12:00:00Z"}],
        "submitted": "2026-11-22T11:59:59.5Z",
    } | fields


def series(rank: int, points: list[list[Any]], **fields: Any) -> dict[str, Any]:
    """Points are step, time and value."""
    shown = [dict(zip(("step", "time", "value"), each, strict=True)) for each in points]
    return {
        "name": "loss",
        "rank": rank,
        "points": shown,
        "total": len(points),
        "downsampled": False,
    } | fields
