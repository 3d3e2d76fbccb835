"""Carries out the collectives that all ranks are ready for, in the order of the agreement.

Small tensors of an all-reduce travel together: they are copied into one buffer, reduced at once and
copied back. A tensor that is alone is reduced where it is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.horovod.torch.adasum import adasum
from lockstep.horovod.torch.requests import ReduceOp, Request, Response

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


@dataclass
class Work:
    """The tensors of this rank's request. A rank that has joined has none."""

    request: Request
    inputs: list[Tensor]
    outputs: list[Tensor] | None = None  # given: the results are written there


@dataclass
class Task:
    """A response and what this rank contributes to it."""

    response: Response
    group: Group
    work: Work | None
    results: Any = None


def batches_of(responses: list[Response], fusion_bytes: int) -> list[list[Response]]:
    """Groups all-reduces that can travel together; all ranks get the same batches."""
    open_batches: dict[Any, tuple[list[Response], int]] = {}
    order: list[list[Response]] = []
    for response in responses:
        request = response.first
        size = request_bytes(request)
        is_sum = request.call == "allreduce" and request.op != ReduceOp.Adasum
        if response.error is not None or not is_sum or size >= _LARGE:
            order.append([response])
            continue
        kind = (request.process_set, *request[3:5], request.op, *request[8:10])
        batch, filled = open_batches.get(kind, (None, 0))
        if batch is None or filled + size > fusion_bytes:
            batch, filled = [], 0
            order.append(batch)
        batch.append(response)
        open_batches[kind] = (batch, filled + size)
    return order


def request_bytes(request: Request) -> int:
    if not request.type:
        return 0
    size: int = torch_type(request.type).itemsize
    return size * sum(math.prod(shape) for shape in request.shapes)


def torch_type(name: str) -> torch.dtype:
    kind = getattr(torch, name.removeprefix("torch."))
    assert isinstance(kind, torch.dtype)
    return kind


def execute(batch: list[Task]) -> None:
    """Sets the results of each task. Every rank of the group calls it with the same batch."""
    call = batch[0].response.first.call
    if call == "allreduce":
        _all_reduce(batch)
    elif call != "barrier":
        {
            "allgather": _all_gather,
            "broadcast": _broadcast,
            "alltoall": _all_to_all,
            "reducescatter": _reduce_scatter,
        }[call](batch[0])


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


def _outputs(task: Task) -> list[Tensor]:
    """Where an all-reduce happens: copies of the inputs, or the tensors themselves."""
    request = task.response.first
    if task.work is None:
        kind = torch_type(request.type)
        return [torch.zeros(shape, dtype=kind, device=request.device) for shape in request.shapes]
    outputs = task.work.outputs or [torch.empty_like(each) for each in task.work.inputs]
    for output, each in zip(outputs, task.work.inputs, strict=True):
        if output is not each:
            output.copy_(each)
    return outputs


def _all_reduce(batch: list[Task]) -> None:
    first = batch[0].response.first
    for task in batch:
        task.results = _outputs(task)
    tensors = [each for task in batch for each in task.results]
    if len(tensors) == 1 and tensors[0].is_contiguous():
        _reduce_buffer(tensors[0], first, batch[0].group)
        return
    if first.op == ReduceOp.Adasum:  # each tensor has an angle of its own
        for tensor in tensors:
            _reduce_buffer(tensor, first, batch[0].group)
        return
    buffer = _fusion_buffer(tensors, batch[0].group)
    torch.cat([each.reshape(-1) for each in tensors], out=buffer)
    _reduce_buffer(buffer, first, batch[0].group)
    parts = buffer.split([each.numel() for each in tensors])
    torch._foreach_copy_(
        tensors, [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]
    )


def _fusion_buffer(tensors: list[Tensor], group: Group) -> Tensor:
    size = sum(each.numel() for each in tensors)
    kind = (tensors[0].dtype, tensors[0].device)
    buffer = group.fusion_buffers.get(kind)
    if buffer is None or buffer.numel() < size:
        buffer = group.fusion_buffers[kind] = tensors[0].new_empty(size)
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


def _all_gather(task: Task) -> None:
    assert task.work is not None, "a rank that has joined gathers nothing"
    requests = task.response.requests
    task.results = []
    for number, tensor in enumerate(task.work.inputs):
        rows = [requests[rank].shapes[number][0] for rank in task.group.ranks]
        output = tensor.new_empty((sum(rows), *tensor.shape[1:]))
        if len(set(rows)) == 1:
            gather_single(output, tensor.contiguous(), group=task.group.group)
        else:
            same = [tensor.contiguous()] * len(rows)
            dist.all_to_all(list(output.split(rows)), same, group=task.group.group)
        task.results.append(output)


def _broadcast(task: Task) -> None:
    assert task.work is not None, "a rank that has joined receives nothing"
    task.results = _outputs(task)
    for output in task.results:
        whole = output.contiguous()
        dist.broadcast(whole, group=task.group.group, group_src=task.response.first.root)
        if whole is not output:
            output.copy_(whole)


def _all_to_all(task: Task) -> None:
    """Results: the rows from all ranks, and how many came from each."""
    assert task.work is not None, "a rank that has joined sends nothing"
    own = task.work.request.splits
    assert own is not None
    place = _place(task)
    received = [(task.response.requests[rank].splits or ())[place] for rank in task.group.ranks]
    tensor = task.work.inputs[0].contiguous()
    output = tensor.new_empty((sum(received), *tensor.shape[1:]))
    dist.all_to_all_single(output, tensor, received, list(own), group=task.group.group)
    task.results = [output, torch.tensor(received, dtype=torch.int32)]


def _place(task: Task) -> int:
    return task.group.ranks.index(task.group.own)


def rows_of_ranks(rows: int, size: int) -> list[int]:
    """The rows of each rank after a reduce-scatter: the first ranks have one more."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


def _reduce_scatter(task: Task) -> None:
    assert task.work is not None, "a rank that has joined receives nothing"
    first = task.response.first
    size = len(task.group.ranks)
    op = _REDUCTIONS[ReduceOp(first.op)]
    task.results = []
    for tensor in task.work.inputs:
        source = tensor.contiguous()
        if first.prescale != 1.0:
            source = source.clone()
            _scale([source], first.prescale)
        rows = rows_of_ranks(tensor.shape[0], size)
        if len(set(rows)) > 1:
            source = _padded(source, rows)
        output = source.new_empty((rows[0], *source.shape[1:]))
        scatter_single(output, source, op, group=task.group.group)
        output = output[: rows[_place(task)]]
        _scale([output], first.postscale, size if first.op == ReduceOp.Average else 1)
        task.results.append(output)


def _padded(tensor: Tensor, rows: list[int]) -> Tensor:
    """Every rank's part has as many rows as that of the first."""
    padded = tensor.new_zeros((len(rows) * rows[0], *tensor.shape[1:]))
    starts = itertools.accumulate(rows, initial=0)
    for rank, (start, count) in enumerate(zip(starts, rows, strict=False)):
        padded[rank * rows[0] : rank * rows[0] + count] = tensor[start : start + count]
    return padded
