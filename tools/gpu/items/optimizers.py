"""Optimizers with kernels of their own, and random numbers of the device."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from models import net
from torch import Tensor, nn

import lockstep
from gpu import devices
from gpu.report import Seen
from gpu.training import largest_difference, state_of, train

WIDTH, BLOCKS = 32, 4


def resume_with_fused_kernels(kind: str) -> Seen:
    """Fused and capturable AdamW read the number of steps in their kernels, on the device."""
    options = ["fused"] if kind == "cpu" else ["fused", "capturable"]
    for option in options:
        with tempfile.TemporaryDirectory() as folder:
            resume_with(devices.use(kind), option, Path(folder))
    return Seen(f"AdamW with {' and with '.join(options)}: the same bits after save and resume")


def resume_with(device: torch.device, option: str, folder: Path) -> None:
    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = lockstep.shard(net(device), "ddp")
        return model, torch.optim.AdamW(model.parameters(), lr=0.01, **{option: True})

    model, optimizer = make()
    train(model, optimizer, range(2))
    checkpoints = lockstep.Checkpoints(folder, model, optimizer)
    checkpoints.save(2)
    checkpoints.finish()
    train(model, optimizer, range(2, 4))
    resumed, other = make()
    assert lockstep.Checkpoints(folder, resumed, other, write=False).resume() == 2
    for state in other.state.values():
        where = state["step"].device
        assert where.type == device.type, f"{option}: the number of steps is on {where}"
    train(resumed, other, range(2, 4))
    devices.synchronize(device)
    difference = largest_difference(state_of(resumed), state_of(model))
    assert difference == 0, f"{option}: the resumed training differs by {difference:.1e}"


class Dropping(nn.Module):
    """A block whose first input is on the CPU, as the ids of a batch may be."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.5)

    def forward(self, on_cpu: Tensor, x: Tensor) -> Tensor:
        return x + self.dropout(torch.tanh(self.linear(x))) * float(on_cpu[0])


class DroppingStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Dropping() for _ in range(BLOCKS))

    def forward(self, on_cpu: Tensor, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(on_cpu, x)
        return x


def train_dropping(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    device = next(model.parameters()).device
    on_cpu, x = torch.ones(1), torch.linspace(0, 1, 16 * WIDTH, device=device).view(16, WIDTH)
    for _ in range(steps):
        (model(on_cpu, x) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def make_dropping(
    device: torch.device, policy: str, seed: int
) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = lockstep.shard(DroppingStack().to(device), policy)
    torch.manual_seed(seed)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def repeat_random_numbers(kind: str) -> Seen:
    """Dropout: recomputing draws the same numbers, and a resumed training the next ones."""
    device = devices.use(kind)
    for policy in ("ddp", "zero3"):
        with devices.group(kind, "lone_rank", 8, 3):
            compare_with_recomputation(device, policy)
    with tempfile.TemporaryDirectory() as folder:
        compare_with_resumed(device, Path(folder))
    return Seen("dropout: the same bits with recomputation, and after save and resume")


def compare_with_recomputation(device: torch.device, policy: str) -> None:
    states = []
    for each in (policy, f"{policy}+recompute"):
        model, optimizer = make_dropping(device, each, seed=7)
        train_dropping(model, optimizer, 2)
        states.append(state_of(model))
    difference = largest_difference(*states)
    assert difference == 0, f"{policy}+recompute differs from {policy} by {difference:.1e}"


def compare_with_resumed(device: torch.device, folder: Path) -> None:
    model, optimizer = make_dropping(device, "ddp", seed=7)
    train_dropping(model, optimizer, 2)
    checkpoints = lockstep.Checkpoints(folder, model, optimizer)
    checkpoints.save(2)
    checkpoints.finish()
    train_dropping(model, optimizer, 2)
    resumed, other = make_dropping(device, "ddp", seed=8)
    assert lockstep.Checkpoints(folder, resumed, other, write=False).resume() == 2
    train_dropping(resumed, other, 2)
    difference = largest_difference(state_of(resumed), state_of(model))
    assert difference == 0, f"the resumed training differs by {difference:.1e}"
