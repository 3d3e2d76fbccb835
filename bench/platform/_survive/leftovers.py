"""Checks that ended runs leave nothing behind but logs, metrics and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from _survive import processes
from _survive.checks import RoundRecord
from _survive.local_cluster import LocalCluster, Violation, wait_until

CLEAN_SECONDS = 15.0  # after the last run has ended
PASSING = ("launch.json", "secret", "spool", "spool.tmp")  # of a node that has ended
LISTENING = "0A"  # of /proc/net/tcp


def await_clean(world: LocalCluster, shared_memory_before: set[str]) -> None:
    """The janitor needs a moment after the end of the last run."""
    left: list[str] = []

    def clean() -> bool:
        left[:] = [*leftovers(world), *new_shared_memory(shared_memory_before)]
        return not left

    try:
        wait_until("", CLEAN_SECONDS, clean)
    except Violation:
        raise Violation(
            f"{CLEAN_SECONDS:g} s after the end there still is: {'; '.join(left[:10])}"
        ) from None


def leftovers(world: LocalCluster) -> Iterator[str]:
    for member in processes.members(world.home):
        if member.kind != "daemon":
            yield str(member)
    for folder in world.node_folders():
        for name in PASSING:
            if (folder / name).exists():
                yield str((folder / name).relative_to(world.home))
    yield from (f"the folder {path}" for path in world.runtime.iterdir())


def check_stopped(world: LocalCluster, evidence: RoundRecord) -> None:
    """After `serve --stop`: no process, not even an uncollected one, and no port."""
    left: list[str] = []

    def gone() -> bool:
        left[:] = [*uncollected(evidence), *open_ports(evidence), *of_daemon(world)]
        return not left

    try:
        wait_until("", CLEAN_SECONDS, gone)
    except Violation:
        raise Violation(f"after the daemon's end there still is: {'; '.join(left[:10])}") from None


def uncollected(evidence: RoundRecord) -> Iterator[str]:
    for log in evidence.rank_logs:
        for start in log.starts:
            for pid, born in ((start["pid"], start["born"]), (start["agent"], start["agent_born"])):
                if processes.is_there(pid, born):
                    yield f"process {pid} of {log.name}"
    for kill in evidence.done_kills:
        if processes.is_there(kill.member.pid, kill.member.born):
            yield str(kill.member)


def open_ports(evidence: RoundRecord) -> Iterator[str]:
    """Ports of a run's agents or ranks. Another program may listen there by now, briefly."""
    ours = {port for log in evidence.rank_logs for start in log.starts for port in start["ports"]}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        port = int(fields[1].rpartition(":")[2], 16)
        if fields[3] == LISTENING and port in ours:
            yield f"a listener at port {port}"


def of_daemon(world: LocalCluster) -> Iterator[str]:
    for process in processes.processes_of(world.home):
        yield f"process {process.pid}: {' '.join(process.words)[:80]}"
    if (world.home / "daemon.json").exists():
        yield "daemon.json"


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def new_shared_memory(before: set[str]) -> Iterator[str]:
    """Segments that were created since then and are unused: used ones are of other programs."""
    for name in shared_memory() - before:
        path = f"/dev/shm/{name}"
        if not any(is_mapped(pid, path) for pid in processes.pids()):
            yield path


def is_mapped(pid: int, path: str) -> bool:
    try:
        return path in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
