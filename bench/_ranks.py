"""Shared code of benchmarks over several ranks: forked ranks, interleaved rounds, memory probe.

Timings on a busy or virtual machine drift by factors within seconds, so two sides are never timed
one after the other: they take turns in short rounds, and the medians of the rounds are compared.
How much memory traffic two processes get at once, before and after, says how far to trust it: about
twice that of one process in a good moment, the same as one in a bad one.
"""

import datetime
import json
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

torch.set_num_threads(1)
_fork = multiprocessing.get_context("fork")

Reading = dict[str, Any]


def on_ranks(ranks: int, hosts: int, body: Callable[..., None], *arguments: Any) -> None:
    """Runs body(rank, *arguments) on forked ranks with the backend lockstep as their world.

    Every group over Gloo is made in the body, by `gloo()`. Equal hosts are pretended: ranks on
    different ones share no memory. Ends the program if a rank fails.
    """
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    children = [
        _fork.Process(target=_rank, args=(rank, ranks, hosts, listener, body, arguments))
        for rank in range(ranks)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    listener.close()
    if any(child.exitcode != 0 for child in children):
        sys.exit("a rank failed; its output above says why")


def _rank(
    rank: int,
    ranks: int,
    hosts: int,
    listener: socket.socket,
    body: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    os.environ["LOCKSTEP_HOST_ID"] = f"host-{rank * hosts // ranks}"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = dist.TCPStore(
        "127.0.0.1",
        listener.getsockname()[1],
        world_size=ranks,
        is_master=rank == 0,
        master_listen_fd=os.dup(listener.fileno()) if rank == 0 else None,
    )
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("lockstep", store=store, rank=rank, world_size=ranks, timeout=limit)
    body(rank, *arguments)
    dist.barrier()
    dist.destroy_process_group()


def gloo() -> dist.ProcessGroup:
    """A group of all ranks over Gloo."""
    group = dist.new_group(backend="gloo")
    assert isinstance(group, dist.ProcessGroup)
    return group


def slowest(seconds: float, group: dist.ProcessGroup) -> float:
    """The time of the rank that took longest."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX, group=group)
    return longest.item()


def alternate(
    ours: Callable[[], None],
    peer: Callable[[], None],
    group: dist.ProcessGroup,
    rounds: int,
    round_seconds: float,
) -> tuple[float, float]:
    """Median seconds of one call of each, which take turns in rounds of about round_seconds."""
    times: dict[Callable[[], None], list[float]] = {ours: [], peer: []}
    calls = {side: _calls_a_round(side, group, round_seconds) for side in times}
    for _ in range(rounds):
        for side, readings in times.items():
            dist.barrier(group=group)
            started = time.perf_counter()
            for _ in range(calls[side]):
                side()
            elapsed = time.perf_counter() - started
            readings.append(slowest(elapsed, group) / calls[side])
    return statistics.median(times[ours]), statistics.median(times[peer])


def _calls_a_round(side: Callable[[], None], group: dist.ProcessGroup, seconds: float) -> int:
    side()  # the first call may set things up
    dist.barrier(group=group)
    started = time.perf_counter()
    for _ in range(3):
        side()
    once = slowest((time.perf_counter() - started) / 3, group)
    return max(1, min(2000, int(seconds / once)))


def show(reading: Reading) -> None:
    print(json.dumps(reading), flush=True)


def memory_probe(moment: str) -> None:
    """Prints to stderr the memory bandwidth of one process and of two at once."""
    one, two = _memory_bandwidth(1), _memory_bandwidth(2)
    print(
        f"memory {moment}: one process {one:.1f} GB/s, two together {two:.1f} GB/s "
        f"({two / one:.1f}x; near 1x means a bad moment to measure)",
        file=sys.stderr,
        flush=True,
    )


def _memory_bandwidth(processes: int) -> float:
    """GB/s of payload of a += b over 64 MiB, in as many processes at once."""
    barrier = _fork.Barrier(processes)
    receiver, sender = _fork.Pipe(duplex=False)
    children = [_fork.Process(target=_add, args=(barrier, sender)) for _ in range(processes)]
    for child in children:
        child.start()
    seconds = [receiver.recv() for _ in children]
    for child in children:
        child.join()
    return processes * 4 * (64 << 20) / max(seconds) / 1e9


def _add(barrier: Any, sender: Any) -> None:
    a, b = torch.ones(16 << 20), torch.ones(16 << 20)
    a += b
    barrier.wait()
    started = time.perf_counter()
    for _ in range(4):
        a += b
    sender.send(time.perf_counter() - started)
