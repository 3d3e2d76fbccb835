"""The processes of one LOCKSTEP_HOME, as /proc shows them: daemon, agents, ranks.

They are found by what the kernel keeps of their environment and not by asking the daemon, which is
dead half of the time here.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

TOKEN = "LOCKSTEP_NODE_TOKEN"


@dataclass(frozen=True)
class Process:
    """A living process; `born` distinguishes it from a later one with the same id."""

    pid: int
    parent: int
    born: str
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def variable(self, name: str) -> str | None:
        return dict(self.environment).get(name)


@dataclass(frozen=True)
class LockstepProcess:
    """A daemon, an agent or a rank; what does not apply is -1."""

    kind: str
    pid: int
    born: str
    run: str = ""
    epoch: int = -1
    node: int = -1
    rank: int = -1

    def __str__(self) -> str:
        if self.kind == "daemon":
            return f"the daemon (process {self.pid})"
        name = "the agent" if self.kind == "agent" else f"rank {self.rank}"
        return f"{name} of {self.run}.{self.epoch}/{self.node} (process {self.pid})"


def read_process(pid: int) -> Process | None:
    """None for a process that is gone, is a zombie, or may not be read."""
    folder = Path(f"/proc/{pid}")
    try:
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if stat[0] in "ZX":
        return None
    pairs = tuple((name, value) for name, _, value in (each.partition("=") for each in variables))
    return Process(pid, int(stat[1]), stat[19], tuple(words[:-1]), pairs)


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(home: Path) -> list[Process]:
    """All processes that the home's daemons started, directly or not, and its commands."""
    try:
        mark = f"{(home / 'installation').read_text().strip()}:"
    except FileNotFoundError:
        mark = "-"
    found = []
    for pid in pids():
        process = read_process(pid)
        if process is None or pid == os.getpid():
            continue
        token = process.variable(TOKEN) or ""
        if process.variable("LOCKSTEP_HOME") == str(home) or token.startswith(mark):
            found.append(process)
    return found


def members(home: Path) -> list[LockstepProcess]:
    """The living daemon, agents and ranks."""
    found = processes_of(home)
    marked = {process.pid for process in found if process.variable(TOKEN)}
    named = (_member(process, process.parent in marked) for process in found)
    return [member for member in named if member]


def _member(process: Process, below_another: bool) -> LockstepProcess | None:
    token = process.variable(TOKEN)
    if token is None:
        serves = process.words[1:2] == ("serve",) and "--detach" not in process.words
        return LockstepProcess("daemon", process.pid, process.born) if serves else None
    attempt, _, node = token.rpartition(":")[2].rpartition("/")
    run, _, epoch = attempt.rpartition(".")
    rank = process.variable("RANK")
    if not below_another and process.words[1:2] == ("agent",):
        return LockstepProcess("agent", process.pid, process.born, run, int(epoch), int(node))
    if rank is None:
        return None  # an agent's child that has not become a rank yet
    return LockstepProcess("rank", process.pid, process.born, run, int(epoch), int(node), int(rank))


def is_alive(pid: int, born: str) -> bool:
    process = read_process(pid)
    return process is not None and process.born == born


def is_there(pid: int, born: str) -> bool:
    """Alive, or ended and not collected: a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == born
    except OSError:
        return False


def kill(member: LockstepProcess) -> bool:
    """SIGKILL to this process only; false if it is gone already."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(member.pid)
        try:
            if is_alive(member.pid, member.born):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return True
        finally:
            os.close(process)
    return False


def kill_all(home: Path, rounds: int = 50) -> None:
    """Nothing of the home is left, also not what is started meanwhile."""
    for _ in range(rounds):
        found = processes_of(home)
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
