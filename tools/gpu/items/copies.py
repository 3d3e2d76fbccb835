"""Speed of copies: a checkpoint's, and those of gradients, against what torch reaches here."""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import lockstep
from gpu import devices
from gpu.machine import available_memory
from gpu.report import Seen

STATE_BYTES = {"cuda": 4 * 10**9, "cpu": 24 * 10**6, "simulated": 24 * 10**6}
WIDTHS = {"cuda": 4096, "cpu": 256, "simulated": 256}
COPY_BYTES = {"cuda": 2**30, "cpu": 2**24, "simulated": 2**24}
# Shares that an item must reach on a GPU. Other programs may use the same bus and disk.
STALL_MAX = 0.5  # of the time of a copy that the host waits for
COPY_MIN = 0.4  # of torch's own rate into pinned memory
PASSES_MAX = 8  # over the gradients, which ddp copies, divides and measures


def seconds_of(device: torch.device, act: Callable[[], object], times: int = 3) -> float:
    """The shortest of several."""
    best = float("inf")
    for _ in range(times):
        devices.synchronize(device)
        begun = time.monotonic()
        act()
        devices.synchronize(device)
        best = min(best, time.monotonic() - begun)
    return best


class CardRates:
    """Bytes a second of copies by torch: into main memory, and within the device."""

    def __init__(self, device: torch.device) -> None:
        size = COPY_BYTES[device.type]
        one = torch.ones(size // 4, device=device)
        other = torch.empty_like(one)
        pinned = torch.empty(size // 4, pin_memory=device.type != "cpu")
        self.to_host = size / seconds_of(device, lambda: pinned.copy_(one, non_blocking=True))
        self.within = size / seconds_of(device, lambda: other.copy_(one))


def state_bytes(device: torch.device, folder: Path) -> int:
    """As many as planned, or what memory and disk allow."""
    disk, memory = shutil.disk_usage(folder).free, available_memory()
    limits = [STATE_BYTES[device.type], disk // 4, memory // 4]
    if device.type == "cuda":
        limits.append(torch.cuda.mem_get_info(device)[0] // 3)
    return min(limits)


class LargeTraining:
    """A model whose parameters and moments have about this many bytes."""

    def __init__(self, device: torch.device, total: int) -> None:
        width = WIDTHS[device.type]
        blocks = max(1, total // (3 * 4 * width * width))
        layers = (nn.Linear(width, width, bias=False, device=device) for _ in range(blocks))
        self.model: nn.Module = lockstep.shard(nn.Sequential(*layers), "ddp")
        self.bytes = 3 * 4 * blocks * width * width
        fused = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=fused, foreach=False)
        self.x = torch.ones(8, width, device=device)

    def step(self) -> None:
        self.model(self.x).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def save_without_a_wait(kind: str) -> Seen:
    """The second save of 4 GB, which reuses the first one's pinned memory."""
    device = devices.use(kind)
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as folder:
        training = LargeTraining(device, state_bytes(device, Path(folder)))
        training.step()
        checkpoints = lockstep.Checkpoints(folder, training.model, training.optimizer, keep=1)
        first = checkpoints.save(1)
        checkpoints.finish()
        training.step()
        devices.synchronize(device)
        begun = time.monotonic()
        stall = checkpoints.save(2)
        devices.synchronize(device)
        copied = time.monotonic() - begun
        checkpoints.finish()
        durable = time.monotonic() - begun
    blocking = training.bytes / CardRates(device).to_host
    numbers = {
        "bytes": float(training.bytes),
        "first_save_s": first,
        "save_s": stall,
        "copied_s": copied,
        "durable_s": durable,
        "blocking_copy_s": blocking,
    }
    text = (
        f"save of {training.bytes / 1e9:.2f} GB returned after {stall * 1e3:.0f} ms "
        f"(the first {first * 1e3:.0f}), copied after {copied:.2f} s, on disk after {durable:.2f} s"
    )
    if kind == "cuda":
        assert stall < STALL_MAX * blocking, (
            f"{text}; a copy for which the host waits takes {blocking:.2f} s"
        )
    return Seen(text, numbers)


def compare_with_the_card(kind: str) -> Seen:
    """The rate of a checkpoint's copies, and the passes over the gradients of a ddp step."""
    device = devices.use(kind)
    card = CardRates(device)
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as folder:
        training = LargeTraining(device, state_bytes(device, Path(folder)) // 4)
        checkpoints = lockstep.Checkpoints(folder, training.model, training.optimizer, keep=1)
        rate = 0.0
        for step in range(3):  # the first one allocates pinned memory
            training.step()
            devices.synchronize(device)
            begun = time.monotonic()
            checkpoints.save(step)
            devices.synchronize(device)
            rate = max(rate, training.bytes / (time.monotonic() - begun))
            checkpoints.finish()
    passes = max(0.0, passes_over_gradients(device, card))
    text = (
        f"a checkpoint's copies {rate / 1e9:.1f} of the card's {card.to_host / 1e9:.1f} GB/s; "
        f"ddp adds {passes:.1f} passes over the gradients at {card.within / 1e9:.0f} GB/s"
    )
    numbers = {
        "checkpoint_bytes_per_s": rate,
        "card_to_host_bytes_per_s": card.to_host,
        "card_within_bytes_per_s": card.within,
        "passes_over_gradients": passes,
    }
    if kind == "cuda":
        assert rate > COPY_MIN * card.to_host, text
        assert passes < PASSES_MAX, text
    return Seen(text, numbers)


def passes_over_gradients(device: torch.device, card: CardRates) -> float:
    """The time that ddp adds to a backward and a clip of torch's, in copies of all gradients."""
    width = WIDTHS[device.type]
    blocks = max(1, COPY_BYTES[device.type] // (4 * width * width))

    def layers() -> nn.Module:
        return nn.Sequential(
            *(nn.Linear(width, width, bias=False, device=device) for _ in range(blocks))
        )

    x = torch.ones(8, width, device=device)
    alone = seconds_of(device, functools.partial(plain_backward, layers(), x))
    with devices.group(device.type, "lone_rank", 2):
        sharded = lockstep.shard(layers(), "ddp")
        sharded_backward(sharded, x)
        ours = seconds_of(device, lambda: sharded_backward(sharded, x))
    return (ours - alone) / (4 * blocks * width * width / card.within)


def plain_backward(model: nn.Module, x: Tensor) -> None:
    model(x).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    model.zero_grad()


def sharded_backward(model: nn.Module, x: Tensor) -> None:
    model(x).mean().backward()
    lockstep.clip_grad_norm_(model.parameters(), 1.0)
    model.zero_grad()
