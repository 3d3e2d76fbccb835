"""The kinds of device that items run on, and their process groups.

"cuda" is what the acceptance is for. "simulated" is a device of main memory with queued kernels, on
machines without a GPU. "cpu" tries the acceptance's own code.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpu.item_list import KINDS

# The backend of c10d that takes NCCL's place on each kind.
BACKENDS = {"cuda": "nccl", "cpu": "gloo", "simulated": "simulated_nccl"}
# Lockstep's own, which passes tensors of a device to the backend above.
RECOMMENDED = {
    "cuda": "lockstep",
    "cpu": "lockstep",
    "simulated": "cpu:lockstep,simulated:lockstep",
}
GROUP_SECONDS = 60  # the time-out of groups


def prepare(kind: str) -> None:
    """In each process, before anything else of this module."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if kind == "simulated":
        import simulated_device

        simulated_device.serve_lockstep()
    from _gpu_backends import lone_rank, staged

    def create_lone_rank(options: Any, _: Any) -> Any:
        return lone_rank(options.group_rank, options.group_size)

    def create_staged(options: Any, _: Any) -> Any:
        inner = dist.ProcessGroupGloo(
            options.store, options.group_rank, options.group_size, options.timeout
        )
        inner.options.global_ranks_in_group = options.global_ranks_in_group
        inner.options.group_name = options.group_id
        return staged(inner)

    for name, create in (("lone_rank", create_lone_rank), ("staged", create_staged)):
        dist.Backend.register_backend(name, create, extended_api=True, devices=list(KINDS))


def device_of(kind: str, index: int = 0) -> torch.device:
    return torch.device(kind) if kind == "cpu" else torch.device(kind, index)


def use(kind: str, index: int = 0) -> torch.device:
    """Makes it the current device of this process."""
    device = device_of(kind, index)
    if kind != "cpu":
        torch.get_device_module(device).set_device(index)
    return device


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)


@contextlib.contextmanager
def group(
    kind: str, backend: str, size: int = 1, rank: int = 0, store: Any = None
) -> Iterator[None]:
    """A process group for this kind of device only, or one of RECOMMENDED."""
    is_whole = ":" in backend or backend in ("lockstep", *BACKENDS.values())
    dist.init_process_group(
        backend if is_whole else f"{kind}:{backend}",
        store=store if store is not None else dist.HashStore(),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=GROUP_SECONDS),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def standard_error(into: list[str]) -> Iterator[None]:
    """Collects the lines that C++ and Python write to standard error."""
    with tempfile.TemporaryFile("w+") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            into += file.read().splitlines()


def queue_sleep(device: torch.device, seconds: float) -> None:
    """Keeps a GPU's current stream busy for about this time."""
    torch.cuda._sleep(int(seconds * cycles_a_second(device)))


@functools.cache
def cycles_a_second(device: torch.device) -> float:
    cycles = 20_000_000
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(cycles)  # the first one loads the kernel
    before.record()
    torch.cuda._sleep(cycles)
    after.record()
    torch.cuda.synchronize(device)
    return float(cycles / (before.elapsed_time(after) / 1000))
