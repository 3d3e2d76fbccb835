"""Carries out the collectives that all ranks are ready for, in the order of the agreement.

Small tensors of an all-reduce travel together: they are copied into one buffer, reduced at once and
copied back. A tensor that is alone is reduced where it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep._compiled import communication
from lockstep.horovod.torch.adasum import adasum
from lockstep.horovod.torch.requests import Key, ReduceOp, Request, Response, torch_type

# Names of torch 2.13; those before are deprecated since.
gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

_LARGE = 1 << 20  # bytes: to copy such a tensor costs more than a collective of its own

_REDUCTIONS = {
    ReduceOp.Average: dist.ReduceOp.SUM,
    ReduceOp.Sum: dist.ReduceOp.SUM,
    ReduceOp.Min: dist.ReduceOp.MIN,
    ReduceOp.Max: dist.ReduceOp.MAX,
    ReduceOp.Product: dist.ReduceOp.PRODUCT,
}


@dataclass
class Group:
    """The ranks of a process set, as numbers of the world, and their connection."""

    ranks: list[int]
    group: Any  # of torch.distributed; None on a rank outside
    own: int  # this process's rank in the world
    # For small tensors that travel together, by type and device. Each step uses them again: new
    # memory would cost a page fault for each page.
    fusion_buffers: dict[Any, Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """The tensors of this rank's request. A rank that has joined has none."""

    request: Request
    inputs: list[Tensor]
    outputs: list[Tensor] | None = None  # given: those of the inputs, which get the results


@dataclass
class Batch:
    """Responses that travel together: all-reduces of one kind, or one other call."""

    responses: list[Response]
    keys: list[Key]
    bytes: int = 0  # one rank has so many


def batches_of(responses: list[Response], fusion_bytes: int) -> list[Batch]:
    """Groups all-reduces that can travel together; all ranks get the same batches."""
    open_batches: dict[Any, Batch] = {}
    order: list[Batch] = []
    for response in responses:
        request, size = response.first, response.bytes
        is_sum = request.call == "allreduce" and request.op != ReduceOp.Adasum
        if response.error is not None or not is_sum or size >= _LARGE:
            order.append(Batch([response], [response.key], size))
            continue
        batch = open_batches.get(response.kind)
        if batch is None or batch.bytes + size > fusion_bytes:
            batch = open_batches[response.kind] = Batch([], [])
            order.append(batch)
        batch.responses.append(response)
        batch.keys.append(response.key)
        batch.bytes += size
    return order


def execute(batch: Batch, group: Group, works: Sequence[Work | None]) -> list[Any]:
    """The results of each response. Every rank of the group calls it with the same batch.

    Args:
        works: what this rank contributes to each; none if it has joined.
    """
    response, work = batch.responses[0], works[0]
    call = response.first.call
    if call == "allreduce":
        return _all_reduce(batch, group, works)
    if call == "barrier":
        return [None]
    assert work is not None, f"a rank that has joined takes part in no {call}"
    if call == "allgather":
        return [_all_gather(response, group, work)]
    if call == "broadcast":
        return [_broadcast(response, group, work)]
    if call == "alltoall":
        return [_all_to_all(response, group, work)]
    return [_reduce_scatter(response, group, work)]


def _scale(tensors: list[Tensor], factor: float, divisor: int = 1) -> None:
    """Integers are rounded towards zero."""
    if factor == 1.0 and divisor == 1:
        return
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.mul_(factor / divisor)
            continue
        if factor != 1.0:
            tensor.copy_((tensor.double() * factor).trunc())
        if divisor != 1:
            tensor.div_(divisor, rounding_mode="trunc")


def _zeros(request: Request) -> Work:
    """The contribution of a rank that has joined."""
    kind = torch_type(request.type)
    zeros = [torch.zeros(shape, dtype=kind, device=request.device) for shape in request.shapes]
    return Work(request, zeros, zeros)


def _outputs(work: Work) -> list[Tensor]:
    return work.outputs or [torch.empty_like(each) for each in work.inputs]


def _outputs_with_inputs(work: Work) -> list[Tensor]:
    """Copies of the inputs, or the tensors themselves."""
    outputs = _outputs(work)
    for output, each in zip(outputs, work.inputs, strict=True):
        if output is not each:
            output.copy_(each)
    return outputs


def _is_plain(tensor: Tensor) -> bool:
    """True if the elements lie one after another, as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _all_reduce(batch: Batch, group: Group, works: Sequence[Work | None]) -> list[Any]:
    first = batch.responses[0].first
    present = [
        work or _zeros(response.first)
        for work, response in zip(works, batch.responses, strict=True)
    ]
    inputs = [each for work in present for each in work.inputs]
    # With Adasum each tensor has an angle of its own.
    if first.op == ReduceOp.Adasum or (len(inputs) == 1 and _is_plain(inputs[0])):
        outputs = _outputs_with_inputs(present[0])
        for tensor in outputs:
            _reduce_buffer(tensor, first, group)
        return [outputs]
    results = [_outputs(work) for work in present]
    buffer = _fusion_buffer(batch, inputs[0], group)
    communication().pack_tensors(buffer, inputs)
    _reduce_buffer(buffer, first, group)
    communication().unpack_tensors(buffer, [each for outputs in results for each in outputs])
    return results


def _fusion_buffer(batch: Batch, like: Tensor, group: Group) -> Tensor:
    size = batch.bytes // like.itemsize
    buffer = group.fusion_buffers.get((like.dtype, like.device))
    if buffer is None or buffer.numel() < size:
        buffer = group.fusion_buffers[like.dtype, like.device] = like.new_empty(size)
    return buffer[:size]


def _reduce_buffer(buffer: Tensor, request: Request, group: Group) -> None:
    _scale([buffer], request.prescale)
    divisor = 1
    if request.op == ReduceOp.Adasum:
        buffer.copy_(_adasum_of_ranks(buffer, group))
    elif request.op == ReduceOp.Average and buffer.is_floating_point():
        _reduce(buffer, dist.ReduceOp.AVG, group)  # divides while it adds
    else:
        _reduce(buffer, _REDUCTIONS[ReduceOp(request.op)], group)
        divisor = len(group.ranks) if request.op == ReduceOp.Average else 1
    _scale([buffer], request.postscale, divisor)


def _reduce(buffer: Tensor, op: Any, group: Group) -> None:
    if buffer.is_complex():
        dist.all_reduce(buffer, op, group=group.group)
        return
    options = dist.AllreduceOptions()
    options.reduceOp = op
    options.asyncOp = False
    if (work := group.group.allreduce([buffer], options)) is not None:
        work.wait()


def gather(gathered: Tensor, own: Tensor, group: Any) -> None:
    """The group's own call: torch's function around it takes longer than a small gather."""
    options = dist.distributed_c10d.AllgatherOptions()
    options.asyncOp = False
    call = getattr(group, "all_gather_single", None) or group._allgather_base
    if (work := call(gathered, own, options)) is not None:
        work.wait()


def _adasum_of_ranks(tensor: Tensor, group: Group) -> Tensor:
    flat = tensor.reshape(-1)
    gathered = flat.new_empty(len(group.ranks) * flat.numel())
    gather_single(gathered, flat, group=group.group)
    return adasum(list(gathered.chunk(len(group.ranks)))).view(tensor.shape)


def _all_gather(response: Response, group: Group, work: Work) -> list[Tensor]:
    results = []
    for number, tensor in enumerate(work.inputs):
        rows = [response.requests[rank].shapes[number][0] for rank in group.ranks]
        output = tensor.new_empty((sum(rows), *tensor.shape[1:]))
        if len(set(rows)) == 1:
            gather_single(output, tensor.contiguous(), group=group.group)
        else:
            same = [tensor.contiguous()] * len(rows)
            dist.all_to_all(list(output.split(rows)), same, group=group.group)
        results.append(output)
    return results


def _broadcast(response: Response, group: Group, work: Work) -> list[Tensor]:
    results = _outputs_with_inputs(work)
    for output in results:
        whole = output.contiguous()
        dist.broadcast(whole, group=group.group, group_src=response.first.root)
        if whole is not output:
            output.copy_(whole)
    return results


def _all_to_all(response: Response, group: Group, work: Work) -> list[Tensor]:
    """The rows from all ranks, and how many came from each."""
    own = work.request.splits
    assert own is not None
    place = group.ranks.index(group.own)
    received = [(response.requests[rank].splits or ())[place] for rank in group.ranks]
    tensor = work.inputs[0].contiguous()
    output = tensor.new_empty((sum(received), *tensor.shape[1:]))
    dist.all_to_all_single(output, tensor, received, list(own), group=group.group)
    return [output, torch.tensor(received, dtype=torch.int32)]


def rows_of_ranks(rows: int, size: int) -> list[int]:
    """The rows of each rank after a reduce-scatter: the first ranks have one more."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


def _reduce_scatter(response: Response, group: Group, work: Work) -> list[Tensor]:
    first = response.first
    size = len(group.ranks)
    op = _REDUCTIONS[ReduceOp(first.op)]
    results = []
    for tensor in work.inputs:
        source = tensor.contiguous()
        if first.prescale != 1.0:
            source = source.clone()
            _scale([source], first.prescale)
        rows = rows_of_ranks(tensor.shape[0], size)
        if len(set(rows)) > 1:
            source = _padded(source, rows)
        output = source.new_empty((rows[0], *source.shape[1:]))
        scatter_single(output, source, op, group=group.group)
        output = output[: rows[group.ranks.index(group.own)]]
        _scale([output], first.postscale, size if first.op == ReduceOp.Average else 1)
        results.append(output)
    return results


def _padded(tensor: Tensor, rows: list[int]) -> Tensor:
    """Every rank's part has as many rows as that of the first."""
    padded = tensor.new_zeros((len(rows) * rows[0], *tensor.shape[1:]))
    starts = itertools.accumulate(rows, initial=0)
    for rank, (start, count) in enumerate(zip(starts, rows, strict=False)):
        padded[rank * rows[0] : rank * rows[0] + count] = tensor[start : start + count]
    return padded
