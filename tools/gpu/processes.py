"""Processes with a time limit, of which nothing remains."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 10.0  # seconds until killed processes are gone


@dataclass
class Ended:
    status: int | None  # negative: the signal; None: it was stopped at the time limit
    seconds: float
    log: list[str]

    def problem(self) -> str:
        """Empty if it ended by itself with status 0."""
        if self.status is None:
            return f"had not ended after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}" if self.status else ""


def run(command: list[str], log: Path, seconds: float, environment: dict[str, str]) -> Ended:
    """Its output goes to `log`. All that it started ends with it, daemons too."""
    adopt_orphans()
    begun = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        finally:
            end_children(process)
    lines = log.read_text(errors="replace").splitlines()
    return Ended(status, time.monotonic() - begun, lines)


def adopt_orphans() -> None:
    """Processes whose parent ends become children of this one."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(process: subprocess.Popen[bytes]) -> None:
    """Kills all children until no new one is adopted. One that a driver blocks is left."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        process.poll()
        children = list(children_of_this_process())
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                if pid != process.pid:
                    os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def children_of_this_process() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name of a program is in parentheses and may have any characters.
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[1]) == os.getpid():
                    yield int(entry.name)
