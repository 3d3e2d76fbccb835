"""The peers' servers: MLflow's, TensorBoard, and one that does nothing."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from _contest.contest import BUILD
from _contest.contest import say as tell
from _contest.packages import install

START_SECONDS = 120.0
NOTHING = Path(__file__).with_name("nothing_server.py")


def peer_packages() -> Path | None:
    """The folder with MLflow and TensorBoard; None, with a message, if pip cannot install them."""
    requirements = Path(__file__).parents[1] / "insight-requirements.txt"
    return install(requirements, BUILD / "bench" / "insight-packages", tell)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(packages: Path) -> dict[str, str]:
    """The variables of a process that imports the peers' packages and calls no other host."""
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    return os.environ | quiet | {"PYTHONPATH": str(packages)}


def answers(port: int, target: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", target)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def server(command: list[str], packages: Path, port: int, target: str) -> Iterator[None]:
    """Runs the command with its process group until the block ends; entered once it answers."""
    process = subprocess.Popen(
        command,
        env=environment(packages),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(port, target):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(command[:4])} does not answer")
            time.sleep(0.02)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def mlflow_server(packages: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """MLflow's server over SQLite with one worker; its address."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with server(command, packages, port, "/health"):
        yield "127.0.0.1", port


@contextlib.contextmanager
def nothing_server(packages: Path) -> Iterator[tuple[str, int]]:
    """Answers each request of an MLflow client at once, and keeps nothing."""
    port = free_port()
    with server([sys.executable, str(NOTHING), str(port)], packages, port, "/health"):
        yield "127.0.0.1", port
