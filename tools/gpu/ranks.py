"""Runs a function as several ranks, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gpu import devices

GRACE = 5.0  # seconds for the other ranks after one has failed
# Not forked: a process that has used CUDA cannot be.
_spawn = multiprocessing.get_context("spawn")


def run_ranks(
    kind: str,
    backend: str,
    size: int,
    body: Callable[..., Any],
    *arguments: Any,
    devices_used: int = 1,
    seconds: float = 100.0,
) -> list[Any]:
    """Calls body(rank, device, *arguments) as each rank of a group; returns the values by rank.

    `body` is a function of a module. Rank r has device r modulo `devices_used` as its current one.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as folder:
        store = str(Path(folder) / "store")
        receivers, processes = [], []
        for rank in range(size):
            receiver, sender = _spawn.Pipe(duplex=False)
            group = (kind, backend, size, rank, store)
            process = _spawn.Process(
                target=_run, args=(sender, group, rank % devices_used, body, arguments)
            )
            process.start()
            sender.close()
            receivers.append(receiver)
            processes.append(process)
        outcomes = _collect(receivers, time.monotonic() + seconds)
        for process in processes:
            process.join(GRACE)
            process.kill()
            process.join()
    errors = [f"rank {rank}: {error}" for rank, (_, error) in outcomes.items() if error]
    assert not errors, "\n".join(errors)
    return [outcomes[rank][0] for rank in range(size)]


def _run(
    sender: Connection,
    group: tuple[str, str, int, int, str],
    index: int,
    body: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    kind, backend, size, rank, store = group
    torch.set_num_threads(1)
    try:
        devices.prepare(kind)
        device = devices.use(kind, index)
        with devices.group(kind, backend, size, rank, dist.FileStore(store, size)):
            value = body(rank, device, *arguments)
        sender.send((value, ""))
    except BaseException as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        sender.send((None, f"{first}\n{traceback.format_exc()}"))


def _collect(receivers: list[Connection], deadline: float) -> dict[int, tuple[Any, str]]:
    """By rank: the value, and the error if there is one. Errors come first, the earliest of all."""
    outcomes: dict[int, tuple[Any, str]] = {}
    while len(outcomes) < len(receivers):
        awaited = {each: rank for rank, each in enumerate(receivers) if rank not in outcomes}
        ready = wait(list(awaited), max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        for receiver in ready:
            assert isinstance(receiver, Connection)
            outcomes[awaited[receiver]] = _receive(receiver)
        if any(error for _, error in outcomes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
    late = {rank for rank in range(len(receivers)) if rank not in outcomes}
    return outcomes | dict.fromkeys(late, (None, "it had not ended in time"))


def _receive(receiver: Connection) -> tuple[Any, str]:
    try:
        value, error = receiver.recv()
    except EOFError:
        return None, "it died"
    return value, error
