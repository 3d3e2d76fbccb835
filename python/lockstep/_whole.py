"""Optimizers that need whole parameters: each parameter is stepped by one of the ranks that divide
the optimizer's state, which has it whole during the step."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

MARK = "_lockstep"

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)

# They step each element by itself. Any other optimizer may use a parameter's shape, or several of
# its elements at once.
ELEMENTWISE = (
    torch.optim.ASGD,
    torch.optim.Adadelta,
    torch.optim.Adagrad,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.SGD,
)

# State in a checkpoint: its name; the number of the parameter of whose elements it is, or else its
# shape; this rank's elements.
StateTensor = tuple[str, int | list[int], Tensor]
SavedTensor = tuple[str, list[int], str]  # name, shape, and type as torch calls it

_marked: weakref.WeakSet[Optimizer] = weakref.WeakSet()
# By optimizer: the owner of each of its parameters, by id.
_owners: weakref.WeakKeyDictionary[Optimizer, dict[int, int]] = weakref.WeakKeyDictionary()


def mark_elementwise(optimizer: AnyOptimizer) -> AnyOptimizer:
    """States that an optimizer from outside of torch steps each element by itself, as AdamW does.

    It then steps slices of parameters, without the exchange that gives it whole ones. Call it
    before the first step. An optimizer that does use more than one element would compute wrong
    values.

    Returns:
        The same optimizer.
    """
    _marked.add(optimizer)
    return optimizer


def needs_whole_parameters(optimizer: Optimizer) -> bool:
    return type(optimizer) not in ELEMENTWISE and optimizer not in _marked


def swap_in_whole_parameters(optimizer: Optimizer, core: Any) -> None:
    """Gathers the model's parameters that have gradients at their owners; every rank calls it."""
    owners = _owners_of(optimizer, core)
    stepped = [each for each in parameters_of(optimizer, core) if each.grad is not None]
    core.swap_in_whole(
        [getattr(each, MARK)[1] for each in stepped], [owners[id(each)] for each in stepped]
    )


def parameters_of(optimizer: Optimizer, core: Any) -> list[Tensor]:
    """Those that the optimizer steps, of one sharded model."""
    all_of_it = (each for group in optimizer.param_groups for each in group["params"])
    return [each for each in all_of_it if _core_of(each) is core]


def _core_of(parameter: Tensor) -> Any:
    mark = getattr(parameter, MARK, None)
    return mark[0].core if isinstance(mark, tuple) else None


def state_of(optimizer: Optimizer, sharded: Any, numbers: Iterable[int]) -> list[StateTensor]:
    """This rank's state, for a checkpoint: of the parameters that it owns, of any shape."""
    found: list[StateTensor] = []
    whole = sharded.core.slices_are_whole()
    for number in numbers:
        for key, value in optimizer.state.get(sharded.parameters[number], {}).items():
            if key == "step" or value is None:
                continue
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"{key} of {type(optimizer).__name__} is no tensor: checkpoints hold no such "
                    "state"
                )
            by_element = whole and value.shape == sharded.parameters[number].shape
            form = number if by_element else list(value.shape)
            found.append((f"{key}/{sharded.names[number]}", form, value))
    return found


def make_state(
    optimizer: Optimizer, sharded: Any, saved: Iterable[SavedTensor]
) -> list[StateTensor]:
    """New state for these tensors of a checkpoint, to be written to; empty where this rank is not
    the owner of the parameter."""
    numbers = {name: number for number, name in enumerate(sharded.names)}
    owners = _owners_of(optimizer, sharded.core)
    optimizer.state.clear()
    made: list[StateTensor] = []
    for name, shape, type_name in saved:
        key, parameter_name = name.split("/", 1)
        parameter = sharded.parameters[numbers[parameter_name]]
        dtype = getattr(torch, type_name)
        value = torch.empty(0, dtype=dtype)
        if owners[id(parameter)] == sharded.core.own_slice():
            value = torch.zeros(shape, dtype=dtype, device=parameter.device)
            optimizer.state[parameter][key] = value
        made.append((name, shape, value))
    return made


def _owners_of(optimizer: Optimizer, core: Any) -> dict[int, int]:
    """The same on all ranks and in all steps: an owner has the state of its parameters."""
    owners = _owners.setdefault(optimizer, {})
    loads = [0] * core.slices()
    new = []
    for parameter in parameters_of(optimizer, core):
        if id(parameter) in owners:
            loads[owners[id(parameter)]] += parameter.numel()
        else:
            new.append(parameter)
    for parameter in sorted(new, key=Tensor.numel, reverse=True):
        owner = loads.index(min(loads))
        owners[id(parameter)] = owner
        loads[owner] += parameter.numel()
    return owners
