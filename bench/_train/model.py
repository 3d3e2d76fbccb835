"""The model that everybody trains, its data and its optimizer: the same in any process."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .field import ROWS, SIZES

RATE = 0.5  # the loss falls by some percent a step: a wrong gradient shows in the next

Batch = tuple[Tensor, Tensor]


def make_model(size: str) -> nn.Sequential:
    """Blocks, each an nn.Sequential: what is sharded is sharded by them."""
    torch.manual_seed(1)
    width, inner = SIZES[size].width, SIZES[size].inner
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
            for _ in range(SIZES[size].blocks)
        )
    )


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
