"""The model of all contestants, its data and its optimizer: the same in any process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .field import PAD_SECONDS, ROWS, SIZES

RATE = 0.5  # the loss falls by some percent a step: a wrong gradient shows in the next

Batch = tuple[Tensor, Tensor]


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds / 2)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradients[0], None


class Pad(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        padded: Tensor = _Sleep.apply(x, self._seconds)  # type: ignore[no-untyped-call]
        return padded


def make_model(size: str) -> nn.Sequential:
    """Blocks, each an nn.Sequential: what is sharded is sharded by them."""
    torch.manual_seed(1)
    width, inner = SIZES[size].width, SIZES[size].inner
    pad = float(os.environ.get(PAD_SECONDS, "0"))

    def block() -> nn.Sequential:
        layers = (nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        return nn.Sequential(*layers, *([Pad(pad)] if pad else []))

    return nn.Sequential(*(block() for _ in range(SIZES[size].blocks)))


def make_optimizer(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=RATE)


def micro_batches(size: str, step: int, rank: int, micro_steps: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(1_000_000 * step + 1000 * rank + 1)
    shape = (ROWS, SIZES[size].width)
    return [
        (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
        for _ in range(micro_steps)
    ]


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs), targets)


def backward(model: nn.Module, batch: Batch, micro_steps: int) -> float:
    """Adds a micro-batch's share of the gradient; its share of the mean loss."""
    loss = loss_of(model, batch) / micro_steps
    loss.backward()
    return loss.item()
