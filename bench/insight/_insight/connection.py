"""A client that costs as little as possible: requests are made before the time is taken."""

from __future__ import annotations

import json
import socket
from typing import Any

MLFLOW = "/api/2.0/mlflow/"


class Connection:
    """One connection that is kept. Headers and body leave in one send()."""

    def __init__(self, address: tuple[str, int], token: str = "") -> None:
        self._socket = socket.create_connection(address, timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._head = f"HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n"
        if token:
            self._head += f"Authorization: Bearer {token}\r\n"

    def request(self, method: str, target: str, body: object = None) -> bytes:
        """The bytes of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {target} {self._head}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    def send(self, request: bytes) -> bytes:
        """The body of the answer. Any status but 200 ends the benchmark."""
        self._socket.sendall(request)
        status = self._answers.readline()
        size = 0
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        body = self._answers.read(size)
        if b" 200 " not in status:
            raise RuntimeError(f"{status.decode().strip()}: {body[:300].decode(errors='replace')}")
        return body

    def call(self, method: str, target: str, body: object = None) -> Any:
        return json.loads(self.send(self.request(method, target, body)))

    def make_run(self, experiment: str = "0") -> str:
        """Makes a run by MLflow's interface; its id."""
        made = self.call(
            "POST",
            f"{MLFLOW}runs/create",
            {"experiment_id": experiment, "start_time": 1_700_000_000_000},
        )
        return str(made["run"]["info"]["run_id"])

    def batch(self, run: str, metrics: list[dict[str, Any]]) -> bytes:
        """The request of MLflow's log-batch."""
        return self.request("POST", f"{MLFLOW}runs/log-batch", {"run_id": run, "metrics": metrics})

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
