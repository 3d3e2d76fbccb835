"""Runs a function on several ranks: forked processes joined by torch.distributed."""

import contextlib
import datetime
import functools
import multiprocessing
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

# torch imports this late, which takes a second: once here is better than once in every rank.
import torch._dynamo
import torch.distributed as dist

# A parent that used threads cannot be forked safely: it computes nothing, with one thread.
torch.set_num_threads(1)

_fork = multiprocessing.get_context("fork")
OVERALL_TIMEOUT = 40.0  # seconds until ranks that still run are killed
TOO_LATE = "it had not ended in time"
NOTHING_SAID = "it died"


@dataclass
class Outcome:
    """The outcome of a rank: its value or its traceback; neither if it died."""

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
        hosts: the number of equal hosts to simulate; ranks on different ones share no memory.
        timeout: seconds for a collective, and for the rendezvous once all ranks have begun.
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
    with listening_socket() as listener:

        def group(rank: int) -> Any:
            join_group(rank, size, hosts, backend, listener, timeout)
            value = body(rank, *arguments)
            dist.destroy_process_group()
            return value

        return fork_all([functools.partial(group, rank) for rank in range(size)])


class Crew:
    """Ranks that persist: one group on which many functions run, one after the other.

    After a failure the ranks are replaced, because they may be out of step.
    """

    def __init__(self, size: int, hosts: int, backend: str) -> None:
        self._size, self._hosts, self._backend = size, hosts, backend
        self._members: list[tuple[Any, Connection]] = []

    def run(self, body: Callable[[int], None]) -> None:
        """Calls body, a function of a module, with the rank on every rank; raises its error."""
        if not self._members:
            self._members = self._start()
        for _, pipe in self._members:
            pipe.send(body)
        deadline = time.monotonic() + OVERALL_TIMEOUT
        outcomes = [_receive(pipe, deadline) for _, pipe in self._members]
        errors = [f"rank {rank}: {each.error}" for rank, each in enumerate(outcomes) if each.error]
        if errors:
            self.dismiss()
        assert not errors, "\n".join(errors)

    def dismiss(self) -> None:
        for process, pipe in self._members:
            pipe.close()
            process.join(5)
            process.kill()
        self._members = []

    def _start(self) -> list[tuple[Any, Connection]]:
        members: list[tuple[Any, Connection]] = []
        with listening_socket() as listener:
            for rank in range(self._size):
                ours, theirs = _fork.Pipe()
                # The others' ends are closed in the child, or it would not see their end of file.
                inherited = [pipe for _, pipe in members] + [ours]
                arguments = (rank, listener, theirs, inherited)
                process = _fork.Process(target=self._serve, args=arguments)
                process.start()
                theirs.close()
                members.append((process, ours))
        return members

    def _serve(
        self, rank: int, listener: socket.socket, pipe: Connection, inherited: list[Connection]
    ) -> None:
        for other in inherited:
            other.close()
        join_group(rank, self._size, self._hosts, self._backend, listener, 20.0)
        listener.close()
        with contextlib.suppress(EOFError):
            while True:
                body = pipe.recv()
                pipe.send(_outcome_of(functools.partial(body, rank)))
        dist.destroy_process_group()


def fork_all(bodies: list[Callable[[], Any]]) -> list[Outcome]:
    """Runs each body in a separate process, all at once; kills those left after the timeout."""
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


def join_group(
    rank: int, size: int, hosts: int, backend: str, listener: socket.socket, timeout: float
) -> None:
    os.environ["LOCKSTEP_HOST_ID"] = f"host-{rank * hosts // size}"
    store = dist.TCPStore(
        "127.0.0.1",
        listener.getsockname()[1],
        world_size=size,
        is_master=rank == 0,
        timeout=datetime.timedelta(seconds=20),
        master_listen_fd=os.dup(listener.fileno()) if rank == 0 else None,
    )
    # On a busy machine some begin late; TCPStore waits for them only to connect.
    store.set(f"begun/{rank}", "")
    store.wait([f"begun/{other}" for other in range(size)])
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )


def listening_socket() -> socket.socket:
    """For the store of a group."""
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
    sender.send(_outcome_of(body))
    sender.close()
    sys.stdout.flush()


def _outcome_of(body: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(value=body())
    except BaseException:
        return Outcome(error=traceback.format_exc())


def _finish(process: Any, receiver: Connection, deadline: float) -> Outcome:
    outcome = _receive(receiver, deadline)
    if outcome.error == TOO_LATE:
        process.kill()
    process.join(10)
    outcome.exit_code = process.exitcode
    if outcome.error == NOTHING_SAID:
        outcome.error = None  # its exit code says more
    return outcome


def _receive(pipe: Connection, deadline: float) -> Outcome:
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        return Outcome(error=TOO_LATE)
    try:
        outcome = pipe.recv()
    except (EOFError, ConnectionResetError):
        return Outcome(error=NOTHING_SAID)
    assert isinstance(outcome, Outcome)
    return outcome
