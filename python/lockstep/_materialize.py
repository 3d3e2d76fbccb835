"""Values for a sharded model that was made on the meta device, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lockstep import _safetensors, _state, _step

Init = Callable[[nn.Module], Any]


@dataclass
class MetaModel:
    """A model from the meta device."""

    passing: dict[str, nn.Module]  # its buffers there that it does not save, and their modules


def allocate_from_meta(model: nn.Module, device: torch.device) -> MetaModel | None:
    """Gives a model from the meta device parameters on another device, which have no memory yet.

    Frozen parameters and buffers have memory, of undefined values. None for another model.
    """
    if not any(each.is_meta for each in (*model.parameters(), *model.buffers())):
        return None
    if any(not each.is_meta for each in model.parameters()):
        raise ValueError(
            "some parameters are on the meta device and some are not: make all of the model there"
        )
    made: dict[int, nn.Parameter] = {}
    passing: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = _replaced(parameter, device, made)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = torch.empty_like(buffer, device=device)
                if name in module._non_persistent_buffers_set:
                    passing[f"{path}.{name}"] = module
    return MetaModel(passing)


def draw(
    model: nn.Module,
    core: Any,
    blocks: Sequence[nn.Module],
    init: Init | None,
    alone: bool,
) -> None:
    """Draws the values of all parameters, the same on every rank, and keeps its own.

    On one rank alone, while the others do something else, for buffers that are no state: the rest
    is overwritten.
    """
    fill = init or _reset_parameters
    writer = _state.ParameterWriter(model, core)
    inside = {id(module) for block in blocks for module in block.modules()}
    outside = [module for module in _children_first(model) if id(module) not in inside]
    devices = {each.device for each in model.parameters() if each.is_cuda}
    with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
        seed = int(torch.randint(2**62, (1,)).item())
        torch.manual_seed(seed if alone else core.broadcast_from_rank_0(seed))
        for modules in (*(list(_children_first(block)) for block in blocks), outside):
            _initialize_together(modules, fill, writer)
    if not alone:
        core.sync_parameters()


def read(
    model: nn.Module,
    core: Any,
    weights: str | Path | Sequence[str | Path],
    from_meta: MetaModel | None,
    init: Init | None,
) -> None:
    """Reads this rank's part of all parameters and buffers."""
    if from_meta:
        _initialize_non_persistent(from_meta.passing, init)
    files = _safetensors.SafetensorsFiles(weights)
    aliases = _state.aliases_of(model)
    missing = []
    for name, shape, begin, end, tensor in core.state():
        plain = name.split("/", 1)[1]
        found = next((each for each in aliases[plain] if each in files), None)
        if found is None:
            missing.append(plain)
            continue
        if files.shape(found) != tuple(shape):
            raise ValueError(
                f"{found} has shape {list(files.shape(found))} in {files.path(found)} and "
                f"{list(shape)} in the model"
            )
        with torch.no_grad():
            tensor.copy_(files.read(found, begin, end))
    if missing:
        raise ValueError(
            f"the weights lack {_state.format_names(missing)}; they have "
            f"{_state.format_names(list(files))}: are they of this model?"
        )
    core.sync_parameters()


def _initialize_non_persistent(passing: dict[str, nn.Module], init: Init | None) -> None:
    """Buffers that are in no file, such as the frequencies of rotary embeddings."""
    unfilled = [
        name
        for name, module in passing.items()
        if init is None or next(module.parameters(), None) is not None
    ]
    if unfilled:
        raise ValueError(
            f"no weights file has {_state.format_names(unfilled)}, which the module does not "
            "save: make such buffers with device='cpu', give init= if it fills them and they are "
            "of a module without parameters, or leave weights= away"
        )
    if init is not None:
        with torch.no_grad():
            for module in dict.fromkeys(passing.values()):
                init(module)


def _replaced(
    parameter: nn.Parameter, device: torch.device, made: dict[int, nn.Parameter]
) -> nn.Parameter:
    if id(parameter) not in made:
        values = torch.empty_like(parameter, device=device)
        if parameter.requires_grad:
            values.untyped_storage().resize_(0)
        made[id(parameter)] = nn.Parameter(values, requires_grad=parameter.requires_grad)
        _step.mark_as_replaced(parameter)
    return made[id(parameter)]


def _initialize_together(
    modules: list[nn.Module], fill: Init, writer: _state.ParameterWriter
) -> None:
    """Attaches memory for all parameters of these modules at once."""
    temporary: dict[int, nn.Parameter] = {}
    slots = [
        (module, name, parameter)
        for module in modules
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    for module, name, parameter in slots:
        if id(parameter) not in temporary:
            values = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device)
            temporary[id(parameter)] = nn.Parameter(values, requires_grad=parameter.requires_grad)
        module._parameters[name] = temporary[id(parameter)]
    try:
        for module in modules:
            if module._parameters or module._buffers or fill is not _reset_parameters:
                fill(module)
    finally:
        for module, name, parameter in slots:
            module._parameters[name] = parameter
    for _, _, parameter in slots:
        values = temporary.pop(id(parameter), None)
        if values is not None:
            writer.write(parameter, values)


def _reset_parameters(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if reset is None:
        raise ValueError(
            f"{type(module).__name__} has parameters or buffers but no reset_parameters(): give "
            "lockstep.shard init=, a function that fills a module's, or weights="
        )
    reset()


def _children_first(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        yield from _children_first(child)
    yield module
