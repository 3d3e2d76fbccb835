"""Reads and writes whole tensors of a sharded model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lockstep._interop.slice import Slice


def state_dict(model: nn.Module, form: str = "full") -> dict[str, Tensor]:
    """The model.state_dict() of the unsharded model, on rank 0 and the CPU; elsewhere empty.

    With parameter servers it is on the first server, after training.steps; workers get nothing.
    Every rank calls it; one block at a time is gathered. For whole runs use Checkpoints.

    Args:
        form: "full"; or "dtensor", the model.state_dict() of FSDP2 instead: DTensors, whose rows
            are divided among all ranks. Parameters of 16 bits have the 32 bits of the optimizer's
            masters there.
    """
    if form == "dtensor":
        from lockstep._interop.forms import model_dtensors

        return model_dtensors(model)
    if form != "full":
        raise ValueError(f'form {form}: must be "full" or "dtensor"')
    # Not at the top: _shard imports this module.
    from lockstep._shard import sharded_of

    sharded = sharded_of(model)
    core = sharded.core
    core.wait_parameter_sync()
    wanted = core.rank == 0 and core.task is None  # a worker's state is the servers'
    copies: dict[int, Tensor] = {}  # one of tied tensors
    with torch.no_grad():
        for number, block in enumerate(sharded.blocks):
            core.pre_forward(number, [])
            if wanted:
                copies |= {id(each): _copy(each) for each in block.parameters()}
            core.post_forward(number, [])
        values: dict[str, Tensor] = {}
        if wanted:
            for name, tensor in model.state_dict(keep_vars=True).items():
                if id(tensor) not in copies:
                    copies[id(tensor)] = _copy(tensor)
                values[name] = copies[id(tensor)]
        _confirm(core, sharded.parameters[0].device)
        return values


def _confirm(core: Any, device: torch.device) -> None:
    """Raises if a gather before was cut off. On a device only a wait for all ranks shows that; and
    a process that ended before would cut off the others."""
    if device.type != "cpu":
        core.mean(0.0)


def load_state_dict(model: nn.Module, values: Mapping[str, Any]) -> None:
    """Load a state_dict() of this function's counterpart, of an unsharded model, or of FSDP2.

    Every rank calls it with all of the values, and reads only the part that it owns: with
    torch.load(..., mmap=True) it reads no more than that from the file. DTensors are sent from
    rank to rank, one at a time.
    """
    from lockstep._interop.forms import own_parts
    from lockstep._shard import sharded_of

    core = sharded_of(model).core
    aliases = aliases_of(model)
    owned = {name.split("/", 1)[1]: (begin, end) for name, _, begin, end, _ in core.state()}
    intervals = {each: owned[name] for name, names in aliases.items() for each in names}
    values = own_parts(values, intervals, sharded_of(model))
    taken = []
    for name, shape, begin, end, tensor in core.state():
        names = aliases[name.split("/", 1)[1]]
        found = next((values[each] for each in names if each in values), None)
        if found is None:
            raise ValueError(f"the state lacks {names[0]}")
        taken.append((tensor, part_of(names[0], found, shape, begin, end)))
    known = {name for names in aliases.values() for name in names}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise ValueError(f"the state has {unknown[0]}, the model has not")
    with torch.no_grad():
        for tensor, part in taken:
            if part.data_ptr() != tensor.data_ptr():
                tensor.copy_(part)
    core.sync_parameters()


def part_of(name: str, value: Any, shape: Sequence[int], begin: int, end: int) -> Tensor:
    """This rank's elements of a value, which is whole or has just them."""
    if tuple(value.shape) != tuple(shape):
        raise ValueError(
            f"{name} has shape {list(value.shape)} in the state and {list(shape)} in the model"
        )
    if not isinstance(value, Slice):
        return value.reshape(-1)[begin:end]
    if (value.begin, value.end) != (begin, end):
        raise ValueError(
            f"{name} has the elements {value.begin} to {value.end}, and this rank has {begin} to "
            f"{end}: load slices by torch.distributed.checkpoint, which changes the division"
        )
    return value.values


def average_buffers(model: nn.Module) -> None:
    """Makes buffers that depend on each rank's data, such as running statistics, equal: their mean.

    Every rank calls it, before it evaluates or saves.
    """
    from lockstep._shard import sharded_of

    sharded_of(model).core.average_buffers()


def aliases_of(model: nn.Module) -> dict[str, list[str]]:
    """All names of each parameter and buffer, by the first, which checkpoints use."""
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor):
            plain = first.setdefault(id(tensor), name)
            names.setdefault(plain, []).append(name)
    return names


class ParameterWriter:
    """Sets parameters from whole values, of which this rank keeps its part."""

    def __init__(self, model: nn.Module, core: Any) -> None:
        self._state = {name: entry for name, *entry in core.state()}
        self._names = {id(each): name for name, each in model.named_parameters()}

    def write(self, parameter: Tensor, values: Tensor) -> None:
        _, begin, end, tensor = self._state[f"parameter/{self._names[id(parameter)]}"]
        tensor.copy_(values.detach().reshape(-1)[begin:end])


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def format_names(names: Sequence[str], most: int = 5) -> str:
    """The first few of them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
