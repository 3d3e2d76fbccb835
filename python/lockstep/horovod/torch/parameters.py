"""Values that ranks share before they train: parameters, the optimizer's state, Python objects."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch.autograd import allgather
from lockstep.horovod.torch.collectives import broadcast_, broadcast_async_
from lockstep.horovod.torch.process_sets import ProcessSet, global_process_set
from lockstep.horovod.torch.world import world


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Gives all ranks the root's values.

    Args:
        params: model.state_dict(), model.named_parameters() or a list of tensors.
    """
    if isinstance(params, Mapping):
        named = sorted(params.items())
    elif isinstance(params, list) or hasattr(params, "__next__"):
        named = [each if isinstance(each, tuple) else (None, each) for each in params]
    else:
        raise ValueError(
            f"broadcast_parameters: takes model.state_dict(), model.named_parameters() or a list "
            f"of tensors, got {type(params).__name__}"
        )
    handles = [
        broadcast_async_(tensor, root_rank, name)
        for name, tensor in named
        if isinstance(tensor, Tensor)
    ]
    for handle in handles:
        handle.wait()


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None
) -> None:
    """Gives all ranks the root's state and options, such as the learning rate. On ranks whose
    optimizer has made no step yet, the state is made."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("broadcast_optimizer_state: does not support torch.optim.LBFGS")
    own = optimizer.state_dict()
    tensors = {
        (number, name): value
        for number, state in own["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
    plan = broadcast_object(
        (
            [(key, value.shape, value.dtype) for key, value in tensors.items()],
            {
                number: {
                    name: value for name, value in state.items() if (number, name) not in tensors
                }
                for number, state in own["state"].items()
            },
            own["param_groups"],
        ),
        root_rank,
        "broadcast_optimizer_state",
    )
    described, others, groups = plan
    state: dict[Any, dict[str, Any]] = {number: dict(values) for number, values in others.items()}
    handles = []
    devices = [p.device for group in optimizer.param_groups for p in group["params"]]
    for (number, name), shape, kind in described:
        found = tensors.get((number, name))
        if found is None or found.shape != shape or found.dtype != kind:
            # Optimizers keep a count of steps on the CPU.
            device = "cpu" if name == "step" else devices[number]
            found = torch.zeros(shape, dtype=kind, device=device)
        state[number][name] = found
        handles.append(broadcast_async_(found, root_rank, f"optimizer.{number}.{name}"))
    for handle in handles:
        handle.wait()
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's object, which must be picklable; the other ranks' is not used."""
    name = name or "object.broadcast"
    is_root = world("broadcast_object()").rank == root_rank
    text = _tensor_of(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([text.numel()])
    broadcast_(length, root_rank, f"{name}.length", process_set)
    if not is_root:
        text = torch.empty(int(length.item()), dtype=torch.uint8)
    broadcast_(text, root_rank, f"{name}.content", process_set)
    return obj if is_root else pickle.loads(text.numpy().tobytes())


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, by rank."""
    name = name or "object.allgather"
    text = _tensor_of(obj)
    lengths = allgather(torch.tensor([text.numel()]), f"{name}.length", process_set)
    content = allgather(text, f"{name}.content", process_set)
    return [pickle.loads(part.numpy().tobytes()) for part in content.split(lengths.tolist())]


def _tensor_of(obj: Any) -> Tensor:
    return torch.frombuffer(bytearray(_dumps(obj)), dtype=torch.uint8)


def _dumps(obj: Any) -> bytes:
    """cloudpickle also takes functions of the script, where it is installed."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return pickle.dumps(obj)
    return bytes(cloudpickle.dumps(obj))
