"""A program of a rank, and what its agent gets of it."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lockstep

PYTHON = Path(lockstep.__file__).parents[1]


def run_program(program: str, report: Path | None) -> subprocess.CompletedProcess[str]:
    """Runs a program of a rank, which must end within a minute."""
    environment = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_REPORT"}
    environment["PYTHONPATH"] = str(PYTHON)
    if report is not None:
        environment["LOCKSTEP_REPORT"] = str(report)
    return subprocess.run(
        [sys.executable, "-c", f"import lockstep\n{program}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


class FakeAgent:
    """Listens like an agent, and keeps the lines of every connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(60)

    def reports_of(self, program: str, connections: int = 1) -> list[dict[str, Any]]:
        received: list[bytes] = []
        reader = threading.Thread(target=self._read, args=(connections, received))
        reader.start()
        run_program(program, self.path)
        reader.join(60)
        return [json.loads(line) for line in b"".join(received).splitlines()]

    def _read(self, connections: int, received: list[bytes]) -> None:
        for _ in range(connections):
            connection, _ = self.listener.accept()
            with connection, connection.makefile("rb") as stream:
                received.append(stream.read())
