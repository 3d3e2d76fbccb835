"""Several GPUs: every policy over NCCL, checkpoints, the current device, overlap."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from models import net
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import lockstep
from gpu import devices
from gpu.items.memory import Stack
from gpu.items.policies import train_ranks
from gpu.items.precision import expect_error
from gpu.ranks import run_ranks
from gpu.report import Seen, Skipped
from gpu.training import (
    EXACT,
    PARTS,
    WHOLE_GROUP,
    adamw,
    largest_difference,
    train,
)

OVERLAP_MIN = 0.3  # of the time of NCCL's kernels
MATRIX_PRODUCTS = ("gemm", "cutlass", "xmma", "nvjet")


def train_by_every_policy(kind: str) -> Seen:
    """Two ranks, over a group without device_id."""
    return train_on_devices(kind, 2, WHOLE_GROUP)


def train_in_parts(kind: str) -> Seen:
    """Four ranks that the policies divide into groups."""
    return train_on_devices(kind, 4, PARTS)


def train_on_devices(kind: str, ranks: int, policies: tuple[str, ...]) -> Seen:
    backend = devices.BACKENDS[kind]
    found = run_ranks(
        kind, backend, ranks, train_ranks, ranks, policies, devices_used=ranks, seconds=150
    )
    return Seen(
        f"{ranks} ranks over {backend}: {len(policies)} policies differ by at most "
        f"{max(found):.1e} from one process"
    )


def resume_with_other_policy(kind: str) -> Seen:
    """Saved with zero3 and resumed with zero1, over init_process_group("lockstep")."""
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as folder:
        difference = max(
            run_ranks(kind, devices.RECOMMENDED[kind], 2, save_and_resume, folder, devices_used=2)
        )
    return Seen(f"zero3 resumed as zero1 differs by {difference:.1e}")


def save_and_resume(rank: int, device: torch.device, folder: str) -> float:
    model = lockstep.shard(net(device), "zero3")
    optimizer = adamw(model.parameters())
    train(model, optimizer, range(2), rank=rank, ranks=2)
    checkpoints = lockstep.Checkpoints(Path(folder), model, optimizer)
    checkpoints.save(2)
    checkpoints.finish()
    train(model, optimizer, range(2, 4), rank=rank, ranks=2)
    resumed = lockstep.shard(net(device), "zero1")
    other = adamw(resumed.parameters())
    assert lockstep.Checkpoints(Path(folder), resumed, other, write=False).resume() == 2
    train(resumed, other, range(2, 4), rank=rank, ranks=2)
    whole, expected = lockstep.state_dict(resumed), lockstep.state_dict(model)
    difference = largest_difference(whole, expected) if rank == 0 else 0.0
    assert difference < EXACT, f"the resumed training differs by {difference:.1e}"
    return difference


def refuse_another_current_device(kind: str) -> Seen:
    """Without set_device(LOCAL_RANK) all ranks of a host would share the first GPU."""
    if kind == "cpu":
        raise Skipped("there is one CPU device")
    devices.use(kind, 0)
    model = net(devices.device_of(kind, 1))
    return Seen(f"refused: {expect_error('set_device', lambda: lockstep.shard(model))[:70]}")


def overlap_gradients(kind: str) -> Seen:
    """NCCL's kernels run while backward computes; by torch.profiler."""
    if kind != "cuda":
        raise Skipped("only NCCL has kernels")
    share = min(run_ranks(kind, "nccl", 2, overlapped_share, devices_used=2))
    text = f"{share:.0%} of the time of NCCL's kernels overlaps with matrix products of backward"
    assert share > OVERLAP_MIN, text
    return Seen(text, {"overlapped": share})


def overlapped_share(rank: int, device: torch.device) -> float:
    width = 4096
    model: nn.Module = lockstep.shard(Stack(width, blocks=16).to(device), "ddp")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.ones(width, width, device=device)

    def step() -> None:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        step()
        devices.synchronize(device)
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for event in profiled.events():
        name = event.name.lower()
        is_nccl = name.startswith(("nccldevkernel", "ncclkernel"))
        is_product = any(word in name for word in MATRIX_PRODUCTS)
        if event.device_type == DeviceType.CUDA and (is_nccl or is_product):
            spans[is_nccl].append((event.time_range.start, event.time_range.end))
    assert spans[True], "the profile has no kernel of NCCL"
    assert spans[False], "the profile has no kernel of a matrix product"
    total = sum(end - begin for begin, end in spans[True])
    both = sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for begin, end in spans[True]
        for other_begin, other_end in spans[False]
    )
    return both / total
