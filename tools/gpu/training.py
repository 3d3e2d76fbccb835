"""Models and loops that several items train, and how results are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from models import loss_of
from torch import Tensor, nn

import lockstep

# By what they need: those that split no group of any size come first.
WHOLE_GROUP = ("ddp", "zero1", "zero2", "zero3", "zero3+keep", "zero3+recompute")
PARTS = ("mics:2", "mics:2+opt", "mics:2+opt+recompute")
STEPS = range(3)
EXACT = 1e-9  # of 64-bit numbers, which two devices add in another order

MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def sgd(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: Iterable[int] = STEPS,
    *,
    parts: int = 1,
    clip: float | None = None,
    rank: int = 0,
    ranks: int = 1,
) -> None:
    """The loop of a user's script: micro-steps, clipping, a step."""
    for step in steps:
        with lockstep.no_sync(model):
            for part in range(parts - 1):
                (loss_of(model, step, part, rank, ranks) / parts).backward()
        (loss_of(model, step, parts - 1, rank, ranks) / parts).backward()
        if clip is not None:
            lockstep.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """This rank's part of the state, in main memory."""
    core: Any = model._lockstep.core
    return {name: tensor.detach().cpu().clone() for name, _, _, _, tensor in core.state()}


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Relative to the largest value of each tensor, or to one."""
    apart = sorted(one.keys() ^ other.keys())
    assert not apart, f"only one of two states has {', '.join(apart[:3])}"
    worst = 0.0
    for name, tensor in one.items():
        here, there = tensor.double(), other[name].cpu().double()
        assert torch.isfinite(here).all(), f"{name} is not finite"
        if here.numel() > 0:
            scale = max(1.0, there.abs().max().item())
            worst = max(worst, (here - there).abs().max().item() / scale)
    return worst


class Failures:
    """Several tries within an item: one that fails does not end the others."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def attempt(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            first = (str(error) or type(error).__name__).splitlines()[0]
            self._messages.append(f"{name}: {first}")

    def expect_none(self) -> None:
        assert not self._messages, "; ".join(self._messages)
