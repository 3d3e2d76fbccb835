"""Ordinary tensors in shared memory: DDP's step, a step that does not communicate, peak memory."""

import argparse
import ctypes
import multiprocessing
import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _ranks import alternate, gloo, memory_probe, on_ranks, show
from _trainer import Trainer, make_model
from torch.nn.parallel import DistributedDataParallel

LIBRARY = Path(__file__).resolve().parents[2] / "build/lib/libbench_cpu_allocators.so"
RANKS = 4
MIB = 1 << 20


class Allocators:
    """Torch's allocator of CPU memory, and others in its place."""

    def __init__(self) -> None:
        functions = ctypes.CDLL(str(LIBRARY))
        for name in ["present_allocator", "torchs_allocator", "allocator_of"]:
            getattr(functions, name).restype = ctypes.c_void_p
        self._set: Callable[[int], None] = functions.set_allocator
        functions.set_allocator.argtypes = [ctypes.c_void_p]
        functions.allocator_of.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.ours: int = functions.present_allocator()  # as the first group has set it
        self.torchs: int = functions.torchs_allocator()
        self._allocator_of = functions.allocator_of

    def use(self, allocator: int) -> None:
        self._set(allocator)

    def of(self, memory: torch.Tensor) -> int:
        """One whose large tensors are in the memory; they never return it."""
        allocator: int = self._allocator_of(memory.data_ptr(), memory.nbytes)
        return allocator


def ddp(rank: int, width: int, rounds: int, span: float) -> None:
    """DDP as it is, against DDP whose buckets and gradients are in allocate_tensor's memory."""
    allocators, group = Allocators(), gloo()
    cpu = torch.device("cpu")
    backend: Any = dist.group.WORLD._get_backend(cpu)  # type: ignore[union-attr]
    memory = backend.allocate_tensor(512 * MIB, dtype=torch.uint8, device=cpu)
    allocators.use(allocators.of(memory))
    allocated = Trainer(DistributedDataParallel(make_model(width)))
    allocated.step()
    allocated.step()  # DDP makes its buckets again before the second step
    allocators.use(allocators.ours)
    ordinary = Trainer(DistributedDataParallel(make_model(width)))
    for _ in range(4):
        ordinary.step()
    ours, peer = alternate(ordinary.step, allocated.step, group, rounds, span)
    if rank == 0:
        row("step of DDP", "ms", ours * 1e3, peer * 1e3, "allocate_tensor", 0.95, width=width)


def alone(rank: int, width: int, rounds: int, span: float) -> None:
    """A step that does not communicate, with our allocator and with torch's."""
    allocators, group = Allocators(), gloo()
    trainer = Trainer(make_model(width))

    def stepping(allocator: int) -> Callable[[], None]:
        def step() -> None:
            allocators.use(allocator)
            trainer.step()

        return step

    sides = stepping(allocators.ours), stepping(allocators.torchs)
    ours, peer = alternate(*sides, group, rounds, span)
    if rank == 0:
        case = "step without communication"
        row(case, "ms", ours * 1e3, peer * 1e3, "torch's allocator", 0.98, width=width)


def peak(rank: int, width: int, steps: int, results: Any) -> None:
    trainer = Trainer(make_model(width))
    for _ in range(steps):
        trainer.step()
    results.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def peaks(width: int, steps: int, rounds: int) -> None:
    """The peak memory of such steps, as medians of processes that take turns."""
    found: dict[str, list[float]] = {"1": [], "0": []}
    results = multiprocessing.get_context("fork").SimpleQueue()
    for _ in range(rounds):
        for setting, readings in found.items():
            os.environ["LOCKSTEP_ZERO_COPY"] = setting
            on_ranks(2, 1, peak, width, steps, results)
            readings += [results.get(), results.get()]
    ours, peer = statistics.median(found["1"]), statistics.median(found["0"])
    row(
        "peak memory without communication",
        "MiB",
        ours,
        peer,
        "torch's allocator",
        0.99,
        width=width,
    )


def row(
    case: str, unit: str, ours: float, peer: float, peer_name: str, bar: float, **fields: int
) -> None:
    reading = {"bench": "zero_copy", "case": case, "unit": unit, "ours": ours, "peer": peer}
    show(reading | {"peer_name": peer_name, "ratio": peer / ours, "bar": bar} | fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a small model, once")
    quick = parser.parse_args().quick
    widths = [512] if quick else [512, 2048]
    rounds, span = (2, 0.02) if quick else (9, 0.2)
    memory_probe("before")
    for width in widths:
        os.environ["LOCKSTEP_ZERO_COPY"] = "1"
        on_ranks(RANKS, 1, ddp, width, rounds, span)
        on_ranks(2, 1, alone, width, rounds, span)
        peaks(width, 3 if quick else 20, 1 if quick else 3)
    memory_probe("after")


if __name__ == "__main__":
    main()
