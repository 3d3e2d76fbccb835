"""Runs a function on several ranks: forked processes joined by torch.distributed."""

import contextlib
import datetime
import multiprocessing
import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

# A parent that used threads cannot be forked safely: it computes nothing, and with one thread.
torch.set_num_threads(1)

_fork = multiprocessing.get_context("fork")
OVERALL_TIMEOUT = 40.0  # seconds until ranks that still run are killed


@dataclass
class Outcome:
    """What a rank came to: its value or its traceback; neither if it died."""

    value: Any = None
    error: str | None = None
    exit_code: int | None = None


def run_ranks(
    size: int,
    body: Callable[..., Any],
    *arguments: Any,
    hosts: int = 1,
    backend: str = "lockstep",
    timeout: float = 20.0,
) -> list[Any]:
    """Calls body(rank, *arguments) on every rank of a group; the values by rank.

    Args:
        hosts: so many equal hosts are pretended; ranks on different ones share no memory.
        timeout: seconds that a collective may take.
    """
    outcomes = run_ranks_to_the_end(
        size, body, *arguments, hosts=hosts, backend=backend, timeout=timeout
    )
    for rank, outcome in enumerate(outcomes):
        assert outcome.error is None, f"rank {rank} of {size} over {backend}:\n{outcome.error}"
        assert outcome.exit_code == 0, f"rank {rank} ended with {outcome.exit_code}"
    return [outcome.value for outcome in outcomes]


def run_ranks_to_the_end(
    size: int,
    body: Callable[..., Any],
    *arguments: Any,
    hosts: int = 1,
    backend: str = "lockstep",
    timeout: float = 20.0,
) -> list[Outcome]:
    """The same, for ranks that are expected to fail."""
    with _listening_socket() as listener:

        def group(rank: int) -> Any:
            os.environ["LOCKSTEP_HOST_ID"] = f"host-{rank * hosts // size}"
            _join(rank, size, backend, listener, timeout)
            value = body(rank, *arguments)
            dist.destroy_process_group()
            return value

        return fork_all([_bind(group, rank) for rank in range(size)])


def fork_all(bodies: list[Callable[[], Any]]) -> list[Outcome]:
    """Runs each body in a process of its own, all at once; kills what is left after a while."""
    children = [_start(body) for body in bodies]
    deadline = time.monotonic() + OVERALL_TIMEOUT
    return [_finish(process, pipe, deadline) for process, pipe in children]


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port that is bound but not listened on: a server with SO_REUSEADDR may still take it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _bind(body: Callable[[int], Any], rank: int) -> Callable[[], Any]:
    return lambda: body(rank)


def _join(rank: int, size: int, backend: str, listener: socket.socket, timeout: float) -> None:
    store = dist.TCPStore(
        "127.0.0.1",
        listener.getsockname()[1],
        world_size=size,
        is_master=rank == 0,
        timeout=datetime.timedelta(seconds=timeout),
        master_listen_fd=os.dup(listener.fileno()) if rank == 0 else None,
    )
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )


def _listening_socket() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def _start(body: Callable[[], Any]) -> tuple[Any, Connection]:
    receiver, sender = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_run, args=(body, sender))
    process.start()
    sender.close()
    return process, receiver


def _run(body: Callable[[], Any], sender: Connection) -> None:
    outcome = Outcome()
    try:
        outcome.value = body()
        pickle.dumps(outcome.value)
    except BaseException:
        outcome = Outcome(error=traceback.format_exc())
    sender.send(outcome)
    sender.close()
    sys.stdout.flush()


def _finish(process: Any, receiver: Connection, deadline: float) -> Outcome:
    outcome = Outcome()
    if receiver.poll(max(0.0, deadline - time.monotonic())):
        with contextlib.suppress(EOFError):
            outcome = receiver.recv()
    elif process.is_alive():
        process.kill()
        outcome.error = "killed: it had not ended in time"
    process.join(10)
    outcome.exit_code = process.exitcode
    return outcome
