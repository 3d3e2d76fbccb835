"""A sharded model's parts as whole tensors and as DTensors, and parts of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep import _state
from lockstep._interop.exchange import Interval, exchange, rows_of
from lockstep._interop.slice import Slice
from lockstep._shard import ShardedState, sharded_of


def parts_of(model: nn.Module) -> dict[str, Slice]:
    """This rank's part of the model.state_dict()."""
    core = sharded_of(model).core
    core.wait_parameter_sync()
    aliases = _state.aliases_of(model)
    parts: dict[str, Slice] = {}
    for name, shape, begin, _, tensor in core.state():
        kind, plain = name.split("/", 1)
        # Buffers may differ between ranks: those of rank 0 are the checkpoint's.
        part = Slice(tensor, shape, begin, writes=kind == "parameter" or core.rank == 0)
        parts |= dict.fromkeys(aliases[plain], part)
    return {name: parts[name] for name in model.state_dict(keep_vars=True) if name in parts}


def model_dtensors(model: nn.Module) -> dict[str, Tensor]:
    """As model.state_dict() of FSDP2: parameters as DTensors, buffers as they are."""
    parts = parts_of(model)
    buffers = dict(model.named_buffers(remove_duplicate=False))
    parameters = {name: part for name, part in parts.items() if name not in buffers}
    dtensors = converted(parameters, "dtensor", sharded_of(model))
    return {name: dtensors[name] if name in dtensors else buffers[name] for name in parts}


def converted(parts: Mapping[Any, Any], form: str, sharded: ShardedState) -> dict[Any, Any]:
    """Every Slice in another form: "full", then none but on rank 0; or "dtensor".

    Every rank calls it with the same keys. A value that is no Slice is that of the first rank on
    which it is not None.
    """
    if form not in ("full", "dtensor"):
        raise ValueError(f'form {form}: must be "full" or "dtensor"')
    group = _group_of(sharded)
    found = _gathered({key: _fact(each) for key, each in parts.items()}, group)
    result: dict[Any, Any] = {}
    made: dict[int, Any] = {}  # tied parameters are one
    for key, each in parts.items():
        facts = [one[key] for one in found]
        if not isinstance(each, Slice):
            result[key] = next((fact for fact in facts if fact is not None), None)
            continue
        if id(each) not in made:
            make = _whole_on_rank_0 if form == "full" else _dtensor
            made[id(each)] = make(each, facts, group)
        result[key] = made[id(each)]
    return result if form == "dtensor" or sharded.core.rank == 0 else {}


def _fact(part: Any) -> Any:
    """Other ranks need this."""
    if isinstance(part, Slice):
        return (part.begin, part.end)
    return part.cpu() if isinstance(part, Tensor) else part


def _whole_on_rank_0(part: Slice, have: list[Interval], group: Any) -> Tensor:
    want = [(0, part.shape.numel() if rank == 0 else 0) for rank in range(len(have))]
    whole = exchange(part.values, have, want, group).cpu()
    return whole.view(part.shape) if dist.get_rank(group) == 0 else whole


def _dtensor(part: Slice, have: list[Interval], group: Any) -> Tensor:
    """A number without dimensions is whole on each rank."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    if part.dim() == 0:
        return exchange(part.values, have, [(0, 1)] * len(have), group).view(())
    want = [rows_of(part.shape, rank, len(have)) for rank in range(len(have))]
    rows = exchange(part.values, have, want, group).view(-1, *part.shape[1:])
    return DTensor.from_local(
        rows,
        DeviceMesh.from_group(group, part.device.type),
        [Shard(0)],
        run_check=False,
        shape=part.shape,
        stride=torch.empty(part.shape, device="meta").stride(),
    )


def own_parts(
    values: Mapping[Any, Any], intervals: Mapping[Any, Interval], sharded: ShardedState
) -> dict[Any, Any]:
    """The values, with this rank's Slice for each DTensor that has an interval.

    Every rank calls it with the same keys, one tensor at a time is sent.
    """
    result = dict(values)
    dtensors = {key: each for key, each in values.items() if _is_dtensor(each)}
    dtensors = {key: each for key, each in dtensors.items() if key in intervals}
    if not dtensors:
        return result
    group = _group_of(sharded)
    facts = {key: (_rows_held(each), intervals[key]) for key, each in dtensors.items()}
    found = _gathered(facts, group)
    for key, each in dtensors.items():
        begin, end = intervals[key]
        if facts[key][0] is None:
            mine = each.full_tensor().reshape(-1)[begin:end]
        else:
            have, want = zip(*(one[key] for one in found), strict=True)
            mine = exchange(each.to_local().reshape(-1), have, want, group)
        result[key] = Slice(mine, each.shape, begin)
    return result


def own_optimizer_parts(
    values: Mapping[str, Mapping[str, Any]],
    intervals: Mapping[str, Interval],
    sharded: ShardedState,
) -> dict[str, dict[str, Any]]:
    flat = {(name, key): each for name, state in values.items() for key, each in state.items()}
    by_key = {each: intervals[each[0]] for each in flat if each[0] in intervals}
    nested: dict[str, dict[str, Any]] = {}
    for (name, key), each in own_parts(flat, by_key, sharded).items():
        nested.setdefault(name, {})[key] = each
    return nested


def _is_dtensor(value: Any) -> bool:
    return getattr(value, "device_mesh", None) is not None


def _rows_held(value: Any) -> Interval | None:
    """The elements of this rank's part of a DTensor; None if they are not whole rows."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sharded = [each for each in value.placements if not each.is_replicate()]
    if value.dim() == 0 or any(type(each) is not Shard or each.dim != 0 for each in sharded):
        return None
    shape, offset = compute_local_shape_and_global_offset(
        value.shape, value.device_mesh, value.placements
    )
    row = value.shape[1:].numel()
    return (offset[0] * row, (offset[0] + shape[0]) * row)


def _gathered(facts: Any, group: Any) -> list[Any]:
    found = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, facts, group=group)
    return found


def _group_of(sharded: ShardedState) -> dist.ProcessGroup:
    if sharded.group is None:
        raise ValueError(
            'this form of the state needs torch.distributed: call init_process_group("lockstep") '
            "before lockstep.shard"
        )
    return sharded.group
