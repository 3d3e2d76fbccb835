"""The host waits for the device once a step, and nowhere else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch
from models import batch, net
from torch import Tensor, nn

import lockstep
from gpu import devices
from gpu.report import Seen, Skipped
from gpu.training import adamw

RANK, RANKS = 3, 8
POLICIES = ("ddp", "zero3", "mics:2")
BUSY = 0.5  # seconds of work before a step


@contextlib.contextmanager
def no_waits(device: torch.device) -> Iterator[None]:
    """An error if the host waits for the device."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return
    import simulated_device

    before = simulated_device.host_waits(device.index).all()
    yield
    waits = simulated_device.host_waits(device.index).all() - before
    assert waits == 0, f"the host waited {waits} times"


@contextlib.contextmanager
def busy(device: torch.device) -> Iterator[None]:
    """The device is busy meanwhile: a GPU for BUSY seconds, a simulated one to the end."""
    if device.type == "cuda":
        devices.queue_sleep(device, BUSY)
        yield
        return
    import simulated_device

    hold = simulated_device.Hold(device.index)
    try:
        yield
    finally:
        hold.release()


class Training:
    """A model in the group of a lone rank, after its first steps, which compare collectives."""

    def __init__(self, device: torch.device, policy: str) -> None:
        self.device = device
        self.model: nn.Module = lockstep.shard(net(device), policy)
        self.optimizer = adamw(self.model.parameters())
        # Copies from main memory make the host wait.
        self.x, self.y = (each.to(device) for each in batch(0, 0, RANK, RANKS))
        for _ in range(2):
            self.loss().backward()
            self.step()
        devices.synchronize(device)

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x), self.y)

    def step(self) -> None:
        lockstep.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def read_once_a_step(kind: str) -> Seen:
    """torch.cuda.set_sync_debug_mode("error") around all of a step but the norm's read."""
    if kind == "cpu":
        raise Skipped("the CPU has no queue to wait for")
    device = devices.use(kind)
    for policy in POLICIES:
        with devices.group(kind, "lone_rank", RANKS, RANK):
            training = Training(device, policy)
            for _ in range(3):
                step_without_waits(training, policy)
    return Seen(f"no wait but the norm's in 3 steps of {', '.join(POLICIES)}")


def step_without_waits(training: Training, policy: str) -> None:
    try:
        with no_waits(training.device):
            training.loss().backward()
        lockstep.clip_grad_norm_(training.model.parameters(), 1.0)
        with no_waits(training.device):
            training.optimizer.step()
            training.optimizer.zero_grad()
    except (AssertionError, RuntimeError) as error:
        raise AssertionError(f"{policy}: {error}") from error


def return_while_the_device_is_busy(kind: str) -> Seen:
    """forward and backward return at once, while the device still works on what came before."""
    if kind == "cpu":
        raise Skipped("the CPU has no queue")
    device = devices.use(kind)
    slowest = {"forward": 0.0, "backward": 0.0}
    for policy in POLICIES:
        with devices.group(kind, "lone_rank", RANKS, RANK):
            training = Training(device, policy)
            with busy(device):
                begun = time.monotonic()
                loss = training.loss()
                forward = time.monotonic() - begun
                loss.backward()
                backward = time.monotonic() - begun - forward
            training.step()
        slowest["forward"] = max(slowest["forward"], forward)
        slowest["backward"] = max(slowest["backward"], backward)
        assert forward < BUSY / 2, f"{policy}: forward returned after {forward:.2f} of {BUSY} s"
        assert backward < BUSY / 2, f"{policy}: backward returned after {backward:.2f} s"
    return Seen(
        f"forward {slowest['forward'] * 1e3:.0f} ms, backward {slowest['backward'] * 1e3:.0f} ms "
        f"before {BUSY * 1e3:.0f} ms of other work are done",
        {f"{name}_ms": seconds * 1e3 for name, seconds in slowest.items()},
    )
