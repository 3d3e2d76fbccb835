"""The state of a sharded model and its optimizer by name, divided as it is among the ranks."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from lockstep import _state
from lockstep._interop import forms
from lockstep._interop.slice import Slice
from lockstep._shard import sharded_of
from lockstep._whole import needs_whole_parameters


class Stateful:
    """The state of a training, for torch.distributed.checkpoint: "model" and "optim".

        dcp.save({"app": lockstep.Stateful(model, optimizer)}, checkpoint_id=folder)
        dcp.load({"app": lockstep.Stateful(model, optimizer)}, checkpoint_id=folder)

    Names and form are those of torch.distributed.checkpoint.state_dict, so that plain torch, FSDP2
    and any policy at any number of ranks load what another has saved. Each rank has its slices
    only. Every rank calls save and load.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer | None = None) -> None:
        if sharded_of(model).core.world_size > 1 and not dist.is_initialized():
            raise ValueError(
                "torch.distributed.checkpoint needs torch.distributed: call "
                'torch.distributed.init_process_group("lockstep") before lockstep.shard, or save '
                "by lockstep.Checkpoints"
            )
        self._model, self._optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"model": model_slices(self._model)}
        if self._optimizer is not None:
            state["optim"] = optimizer_slices(self._model, self._optimizer)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _state.load_state_dict(self._model, state["model"])
        if self._optimizer is not None:
            load_optimizer_state_dict(self._model, self._optimizer, state["optim"])


def model_slices(model: nn.Module) -> dict[str, Tensor]:
    """This rank's part of the model.state_dict(): writing to it sets the state.

    Parameters of 16 bits have the 32 bits of the optimizer's masters.
    """
    return {name: _whole_or_slice(part) for name, part in forms.parts_of(model).items()}


def optimizer_slices(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """This rank's part of the optimizer's state, by the names of parameters."""
    owned = _OwnedState(model, optimizer)
    state = {
        name: {key: _whole_or_slice(each) for key, each in parts.items()}
        for name, parts in owned.parts()
        if not owned.is_empty(name)
    }
    return {"state": state, "param_groups": owned.groups()}


def optimizer_state_dict(
    model: nn.Module, optimizer: Optimizer, form: str = "full"
) -> dict[str, Any]:
    """The optimizer's state by the names of parameters, as torch.distributed.checkpoint.state_dict
    has it.

    Every rank calls it; one tensor at a time is sent.

    Args:
        form: "full", whole tensors on rank 0 and the CPU, elsewhere none; or "dtensor", as of a
            model of FSDP2: DTensors, whose rows are divided among all ranks.
    """
    owned = _OwnedState(model, optimizer)
    state = {
        (name, key): each if isinstance(each, Slice) or not owned.is_empty(name) else None
        for name, parts in owned.parts()
        for key, each in parts.items()
    }
    nested: dict[str, Any] = defaultdict(dict)
    for (name, key), each in forms.converted(state, form, sharded_of(model)).items():
        nested[name][key] = each
    return {"state": dict(nested), "param_groups": owned.groups()} if nested else {}


def load_optimizer_state_dict(
    model: nn.Module, optimizer: Optimizer, values: Mapping[str, Any]
) -> None:
    """Loads an optimizer's state by the names of parameters: of whole tensors, DTensors or slices.

    Every rank calls it. The state is what torch.distributed.checkpoint.state_dict's
    get_optimizer_state_dict returns for another model, such as one of FSDP2, or Stateful's "optim".

    Raises:
        ValueError: the optimizer has other groups of parameters, or the state lacks something.
    """
    owned = _OwnedState(model, optimizer)
    owned.load_groups(values["param_groups"])
    owned.load(forms.own_optimizer_parts(values["state"], owned.intervals(), sharded_of(model)))


def names_of(model: nn.Module, optimizer: Optimizer) -> list[str]:
    """The names of an optimizer's parameters, in its order."""
    owned = _OwnedState(model, optimizer)
    return [name for group in owned.groups() for name in group["params"]]


def by_name(state: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A torch optimizer's state_dict() by these names, for the numbers that it has for them."""

    def name(parameter: int | str) -> str:
        return names[parameter] if isinstance(parameter, int) else parameter

    return {
        "state": {name(parameter): value for parameter, value in state["state"].items()},
        "param_groups": [
            {**group, "params": [name(parameter) for parameter in group["params"]]}
            for group in state["param_groups"]
        ],
    }


class _OwnedState:
    """The state of this rank's slices."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        core = sharded_of(model).core
        self._optimizer = optimizer
        self._names: dict[int, str] = {
            id(parameter): name for name, parameter in model.named_parameters()
        }
        self._owned = {
            name.split("/", 1)[1]: (tuple(shape), begin, end)
            for name, shape, begin, end, _ in core.state()
        }
        self._whole = core.slices_are_whole()
        self._device: torch.device = core.optimizer_device
        if not self._whole and needs_whole_parameters(optimizer):
            raise ValueError(
                f"{type(optimizer).__name__} steps whole parameters, whose state is not divided by "
                "element: save it by lockstep.Checkpoints, or use policy ddp"
            )

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each parameter's state, with a Slice for what it has by element."""
        for name, _, state in self._states():
            shape, begin, end = self._owned[name]
            yield (
                name,
                {
                    key: Slice(value.view(-1), shape, begin)
                    if _is_by_element(key, value, end - begin)
                    else value
                    for key, value in state.items()
                },
            )

    def is_empty(self, name: str) -> bool:
        _, begin, end = self._owned[name]
        return bool(begin == end)

    def intervals(self) -> dict[str, tuple[int, int]]:
        return {name: (begin, end) for name, (_, begin, end) in self._owned.items()}

    def groups(self) -> list[dict[str, Any]]:
        return [
            {**group, "params": [self._name(each) for each in group["params"]]}
            for group in self._optimizer.param_groups
        ]

    def load_groups(self, values: Any) -> None:
        mine = self.groups()
        if [group["params"] for group in mine] != [list(group["params"]) for group in values]:
            raise ValueError(
                "the state is of an optimizer with other parameter groups: make the groups as at "
                "the save"
            )
        for group, new in zip(self._optimizer.param_groups, values, strict=True):
            group.update({key: value for key, value in new.items() if key != "params"})

    def load(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        for name, parameter, state in self._states():
            if self.is_empty(name):
                continue
            # In torch a parameter that never had a gradient has no state.
            if name in values:
                found = values[name]
                state = {key: self._loaded(name, key, mine, found) for key, mine in state.items()}
            self._optimizer.state[parameter] = state

    def _states(self) -> list[tuple[str, Tensor, dict[str, Any]]]:
        """Names, parameters and state; new state where the optimizer has none, which is before a
        step, and where this rank has no elements."""
        states = []
        for group in self._optimizer.param_groups:
            fresh: dict[torch.dtype, dict[str, Any]] = {}
            for parameter in group["params"]:
                if not parameter.requires_grad:
                    continue
                state = self._optimizer.state.get(parameter)
                if not state:
                    if parameter.dtype not in fresh:
                        fresh[parameter.dtype] = _state_of_zeros(
                            self._optimizer, group, parameter.dtype, self._device
                        )
                    state = self._expanded(parameter, fresh[parameter.dtype])
                states.append((self._name(parameter), parameter, state))
        return states

    def _name(self, parameter: Tensor) -> str:
        if id(parameter) not in self._names:
            raise ValueError("the optimizer has a parameter that is not of the sharded model")
        return self._names[id(parameter)]

    def _expanded(self, parameter: Tensor, fresh: dict[str, Any]) -> dict[str, Any]:
        shape, begin, end = self._owned[self._name(parameter)]
        own = shape if self._whole else (end - begin,)
        return {
            key: torch.zeros(own, dtype=value.dtype, device=value.device)
            if _is_by_element(key, value, 2)
            else _copied(value)
            for key, value in fresh.items()
        }

    def _loaded(self, name: str, key: str, mine: Any, values: Mapping[str, Any]) -> Any:
        if key not in values:
            raise ValueError(f"the state of the optimizer lacks {key} of {name}")
        shape, begin, end = self._owned[name]
        if not _is_by_element(key, mine, end - begin):
            return _copied(values[key])
        part = _state.part_of(f"{key} of {name}", values[key], shape, begin, end)
        if part.data_ptr() != mine.data_ptr():
            mine.copy_(part.view(mine.shape))
        return mine


def _whole_or_slice(part: Any) -> Any:
    """A tensor as it is if this rank has all of it, which every other rank may have, too."""
    if isinstance(part, Slice) and part.writes and part.values.numel() == part.shape.numel():
        return part.values.view(part.shape)
    return part


def _is_by_element(key: str, value: Any, elements: int) -> bool:
    if key == "step" or not isinstance(value, Tensor) or value.dim() == 0:
        return False
    if value.numel() != elements:
        raise ValueError(
            f"{key} has {value.numel()} elements for {elements} of a parameter: checkpoints hold "
            "state by element only"
        )
    return True


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _state_of_zeros(
    optimizer: Optimizer, group: dict[str, Any], dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    """The state that the optimizer makes for two elements at its first step, set to zero.

    Only the optimizer itself knows its state: a copy of it takes a step, without the hooks and
    schedulers of the original.
    """
    narrow = dtype in (torch.float16, torch.bfloat16)
    parameter = nn.Parameter(
        torch.zeros(2, dtype=torch.float32 if narrow else dtype, device=device)
    )
    parameter.grad = torch.zeros_like(parameter)
    copy = object.__new__(type(optimizer))
    copy.__dict__.update(optimizer.__dict__)
    copy.param_groups = [{**group, "params": [parameter]}]
    copy.state = defaultdict(dict)
    copy._optimizer_step_pre_hooks = OrderedDict()
    copy._optimizer_step_post_hooks = OrderedDict()
    type(optimizer).step(copy)
    state = copy.state[parameter]
    for value in state.values():
        if isinstance(value, Tensor):
            value.zero_()
    return dict(state)
