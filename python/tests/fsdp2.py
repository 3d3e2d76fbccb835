"""A model that FSDP2 can train, too, and its training."""

from typing import Any

import torch
from models import IN, OUT, loss_of, wave
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01, amsgrad=True)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def train(model: nn.Module, optimizer: Any, steps: range, rank: int, ranks: int) -> None:
    for step in steps:
        loss_of(model, step, 0, rank, ranks).backward()
        optimizer.step()
        optimizer.zero_grad()


def small() -> nn.Module:
    """Without parameters that are shared or unused, which FSDP2 treats in another way."""
    layers = [nn.Linear(IN, 7), nn.Tanh(), nn.Linear(7, 6), nn.BatchNorm1d(6), nn.Linear(6, OUT)]
    model = nn.Sequential(*layers).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(0.5 * wave(*parameter.shape, phase=0.1 * number))
    return model


def fsdp2() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = fully_shard(small())
    return model, adamw(model.parameters())


class Plain:
    """A program of plain torch or FSDP2 gives this to dcp; torch's own tutorial has it."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self._model,
            self._optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optim"],
        )
