"""The cluster of one round: its own home, `lockstep` as users type it, and the timeline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from _survive import processes
from _survive.processes import LockstepProcess

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build"))
LOCKSTEP = BUILD / "bin" / "lockstep"
PROGRAM = Path(__file__).parent / "program.py"
# The gang takes two devices of each host; the third pair is for the others.
SERVE = ("serve", "--hosts", "2x3", "--detach")
COMMAND_SECONDS = 60.0

Value = TypeVar("Value")


def told(words: Sequence[str]) -> str:
    return f"`lockstep {' '.join(words)}`"


class Violation(Exception):
    """A broken promise; the message names it."""


def wait_until(what: str, patience: float, condition: Callable[[], Value]) -> Value:
    """The condition's first true value; a Violation names the event that did not happen."""
    deadline = time.monotonic() + patience
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise Violation(f"after {patience:g} s still not: {what}")
        time.sleep(0.02)


class Timeline:
    """Events with the seconds since the round began; also written to a file, for debugging."""

    def __init__(self, path: Path) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._file = path.open("w", buffering=1)
        self.lines: list[str] = []

    def add(self, words: str) -> None:
        with self._lock:
            self.lines.append(f"{time.monotonic() - self._began:7.3f}  {words}")
            self._file.write(self.lines[-1] + "\n")

    def close(self) -> None:
        self._file.close()


class LocalCluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.rank_logs = folder / "diaries"
        self.runtime = folder / "run"  # where agents put their sockets, else /tmp
        for each in (self.rank_logs, self.runtime):
            each.mkdir(parents=True)
        self.timeline = Timeline(folder / "timeline")
        self.environment = os.environ | {
            "LOCKSTEP_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        self.environment.setdefault("PYTHONPATH", str(BUILD / "python"))
        self.environment.pop("LOCKSTEP_REPORT", None)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [str(LOCKSTEP), *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise Violation(f"{told(words)} did not end within {late.timeout:g} s") from None

    def ok(self, *words: str) -> str:
        done = self.command(*words)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise Violation(f"{told(words)} ended with {done.returncode}: {said}")
        return done.stdout

    def serve(self) -> None:
        self.ok(*SERVE)

    def runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.ok("ps", "--json"))["runs"]
        return listed

    def show(self, run: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.ok("show", run, "--json"))
        return view

    def members(self, kind: str) -> list[LockstepProcess]:
        return [each for each in processes.members(self.home) if each.kind == kind]

    def node_folders(self) -> Iterator[Path]:
        return self.home.glob("runs/*/*/attempt-*/node-*")


@contextmanager
def local_cluster_in(folder: Path) -> Iterator[LocalCluster]:
    """A cluster without processes left afterwards, however it ends. The folder stays."""
    world = LocalCluster(folder)
    try:
        yield world
    finally:
        processes.kill_all(world.home)
        world.timeline.close()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
