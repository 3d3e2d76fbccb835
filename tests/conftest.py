"""Fixtures for tests of whole programs: a daemon for each test, and the CLI as users type it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "lockstep"
PATIENCE = 60.0  # seconds; two busy cores are slow


def wait_until(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The condition's first true value; otherwise fails the test with the missing event."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    pytest.fail(f"after {patience:.0f} s still not: {what}")


def is_alive(pid: int) -> bool:
    """False when all threads have ended. Until then the process keeps its locks, even if it was
    killed and its first thread has ended."""
    try:
        return any(state_of(task) not in "ZX" for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False


def state_of(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that no other process gets: it is bound and not listened on, as a server with
    SO_REUSEADDR still may."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


class Cluster:
    """A daemon with a home of its own, and `lockstep` commands that talk to it."""

    def __init__(self, home: Path, program: Path = PROGRAM) -> None:
        self.home = home
        self.program = program
        self.within: list[str] = []  # what runs the commands, such as nsenter; nothing
        # Ranks' `python` is the one that has torch and lockstep.
        path = f"{BUILD / 'venv' / 'bin'}:{os.environ['PATH']}"
        self.environment = {**os.environ, "LOCKSTEP_HOME": str(home), "PATH": path}
        for name in ("LOCKSTEP_REPORT", "LOCKSTEP_PROFILE", "LOCKSTEP_URL"):
            self.environment.pop(name, None)

    def command(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `lockstep WORDS`; never raises for its exit code."""
        done = subprocess.run(
            [*self.within, str(self.program), *words],
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=PATIENCE * 2,
            check=False,
            **options,
        )
        # A busy machine may delay the daemon; the test does not measure that.
        done.stderr = re.sub(r"^waiting for the daemon at .*\n", "", done.stderr, flags=re.M)
        return done

    def ok(self, *words: str, **options: Any) -> str:
        done = self.command(*words, **options)
        assert done.returncode == 0, f"lockstep {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def serve(self, hosts: str = "2x2", *words: str) -> None:
        self.ok("serve", "--hosts", hosts, "--detach", *words)

    def submit(self, *words: str) -> str:
        return self.ok("run", "--detach", *words).strip()

    def show(self, run: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(self.ok("show", run, "--json"))
        return view

    def wait_for(self, run: str, *states: str) -> dict[str, Any]:
        view = wait_until(
            f"{run} is {' or '.join(states)}; it is {self.show(run)}",
            lambda: (now := self.show(run))["state"] in states and now,
        )
        return dict(view)

    def ended(self, run: str) -> dict[str, Any]:
        return self.wait_for(run, "succeeded", "failed", "timed_out", "cancelled")

    def running_ranks(self, run: str) -> list[dict[str, Any]]:
        """The ranks of the newest attempt once all of them run."""
        view = wait_until(f"all ranks of {run} run", lambda: self._all_running(run))
        return list(view)

    def _all_running(self, run: str) -> list[dict[str, Any]]:
        shown = self.command("show", run, "--json")
        if shown.returncode != 0 or (view := json.loads(shown.stdout))["state"] != "running":
            return []
        ranks = [rank for node in view["attempts"][-1]["nodes"] for rank in node["ranks"]]
        want = view["spec"]["nodes"] * view["spec"]["devices"]
        alive = [rank for rank in ranks if rank["state"] == "running" and rank["pid"]]
        return alive if len(alive) == want else []

    def attempt_folder(self, run: str, epoch: int = 1) -> Path:
        generation = self.show(run)["attempts"][epoch - 1]["generation"]
        return self.home / "runs" / generation / run / f"attempt-{epoch}"

    def logs(self, run: str, *words: str) -> list[str]:
        return self.ok("logs", run, *words).splitlines()

    def daemon_pid(self) -> int:
        return int(json.loads((self.home / "daemon.json").read_text())["pid"])

    def kill_daemon(self) -> None:
        """Returns when it is gone, which takes a moment on a busy machine."""
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until("the daemon is gone", lambda: not is_alive(pid))

    def daemon_port(self) -> int:
        return int(self.url().partition("#")[0].rpartition(":")[2])

    def url(self) -> str:
        return str(json.loads((self.home / "daemon.json").read_text())["url"])

    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    def processes(self) -> list[int]:
        """Agents, ranks and their children: all processes with this home's mark."""
        installation = (self.home / "installation").read_text().strip()
        mark = f"LOCKSTEP_NODE_TOKEN={installation}:".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if mark in environment:
                found.append(int(entry.name))
        return found

    def close(self) -> None:
        for run in json.loads(self.ok("ps", "--json"))["runs"]:
            if run["ended"] is None and not run["launcher"]:  # the daemon stops no other
                self.ok("stop", run["id"])
                self.ended(run["id"])
        wait_until("no process of the cluster is left", lambda: not self.processes())
        self.ok("serve", "--stop")


class Laptop(Cluster):
    """A user that has no daemon: another home, and nothing of the daemon's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "laptop" / ".local/state/lockstep")
        self.folder = folder / "laptop"
        self.folder.mkdir()
        del self.environment["LOCKSTEP_HOME"]
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)
        self.environment["HOME"] = str(self.folder)

    @property
    def profiles(self) -> Path:
        return self.folder / ".config/lockstep/profiles"

    def starts_no_daemon(self) -> bool:
        return not self.home.exists()

    def on_terminal(self, *words: str, dialog: dict[str, str]) -> str:
        """Runs a command that ends well, answers its questions, and returns what it showed."""
        leader, follower = pty.openpty()
        command = subprocess.Popen(
            [str(PROGRAM), *words],
            env=self.environment,
            stdin=follower,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        shown = b""
        for question, answer in dialog.items():
            while question.encode() not in shown:
                shown += os.read(leader, 1000)
            os.write(leader, answer.encode() + b"\n")
        while True:
            try:
                shown += os.read(leader, 1000)
            except OSError:  # the command has ended
                break
        os.close(leader)
        assert command.wait(timeout=PATIENCE) == 0, shown
        return shown.decode()


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    """A home without a daemon; one that a test starts is stopped."""
    cluster = Cluster(tmp_path / "home")
    yield cluster
    if (cluster.home / "daemon.json").exists():
        cluster.close()


@pytest.fixture
def cluster(idle: Cluster) -> Cluster:
    """Two hosts of two devices each."""
    idle.serve()
    return idle


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)
