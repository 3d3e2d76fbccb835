"""Ranks in Python: forked once, when torch is imported, each on its host with its own commands.

A host is ADDRESS=NAMESPACE, a network namespace whose interface is eth0; each has equally many
ranks. Without hosts all ranks are on this one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

from .network import INTERFACE

_PR_SET_PDEATHSIG = 1
_c = ctypes.CDLL(None, use_errno=True)


def fork_ranks(ranks: int, hosts: Sequence[str], live: Callable[[int, str], None]) -> int:
    """Calls live(rank, file) in so many processes, on its host; the file is for them to meet at.

    Returns the worst exit code. The ranks end with this process, however it ends; a rank that was
    killed is told of at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        rank_of = {}
        for rank in range(ranks):
            if (pid := os.fork()) == 0:
                _c.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                place = hosts[rank * len(hosts) // ranks] if hosts else None
                os._exit(_live(lambda rank=rank: live(rank, f"{folder}/store"), place))
            rank_of[pid] = rank
        return max(_await_one(rank_of) for _ in range(ranks))


def _await_one(rank_of: dict[int, int]) -> int:
    """The exit code of the next rank that ends; 128 + signal for a killed one, as in a shell."""
    pid, status = os.wait()
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    why = ": was there too little memory?" if number == signal.SIGKILL else ""
    said = f"rank {rank_of[pid]} was killed by {signal.Signals(number).name}{why}"
    print(said, file=sys.stderr, flush=True)
    return 128 + number


def _live(body: Callable[[], None], host: str | None) -> int:
    try:
        enter(host)
        body()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def enter(host: str | None) -> None:
    """Moves this thread and its later threads to that host's network; None: no change."""
    if host is None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return
    address, _, namespace = host.partition("=")
    with open(namespace) as file:
        if _c.setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"entering {host} failed")
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
    os.environ["LOCKSTEP_ADDRESS"] = address
    os.environ["LOCKSTEP_HOST_ID"] = address  # memory crosses namespaces


def obey(rank: int, path: str, answer: Callable[[str], str]) -> None:
    """Answers each line of the coordinator at the Unix socket, until it hangs up."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    stream = connection.makefile("rw")
    print("rank", rank, file=stream, flush=True)
    for line in stream:
        print(answer(line), file=stream, flush=True)
