"""The collectives that wait, through which gradients flow back.

The gradients are those of Horovod. That of an allgather and of a broadcast is the average over the
ranks, not the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch import collectives
from lockstep.horovod.torch.compression import Compression
from lockstep.horovod.torch.process_sets import ProcessSet, global_process_set
from lockstep.horovod.torch.requests import ReduceOp
from lockstep.horovod.torch.submit import check_tensors


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], name: str | None, *tensors: Tensor) -> Any:
        ctx.options = options
        return tuple(collectives.grouped_allreduce_async(tensors, name=name, **options).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return (None, None, *_AllReduce.apply(ctx.options, None, *gradients))


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: Tensor) -> Any:
        ctx.process_set = process_set
        results = collectives.grouped_allgather_async(tensors, name, process_set).wait()
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        own = ctx.process_set
        reduced = collectives.grouped_allreduce_async(gradients, process_set=own).wait()
        rows = allgather(torch.tensor([ctx.rows]), process_set=own)
        starts = rows[: own.rank()].sum(0).tolist()
        parts = zip(reduced, starts, ctx.rows, strict=True)
        return (None, None, *(each[start : start + count] for each, start, count in parts))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> Any:
        ctx.process_set = process_set
        ctx.is_root = process_set.included() and _world_rank(process_set) == root_rank
        return collectives.broadcast_async(tensor, root_rank, name, process_set).wait()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        reduced = collectives.allreduce_async(gradient, process_set=ctx.process_set).wait()
        return (reduced if ctx.is_root else torch.zeros_like(reduced)), None, None, None


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> Any:
        ctx.process_set = process_set
        if splits is None:
            ctx.received = None
            return collectives.alltoall_async(tensor, None, name, process_set).wait()
        output, received = collectives.alltoall_async(tensor, splits, name, process_set).wait()
        ctx.received = received
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> Any:
        back = collectives.alltoall_async(gradient, ctx.received, None, ctx.process_set).wait()
        return (back if ctx.received is None else back[0]), None, None, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict[str, Any], name: str | None, *tensors: Tensor) -> Any:
        ctx.options = options
        return tuple(collectives.grouped_reducescatter_async(tensors, name, **options).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        own = ctx.options["process_set"]
        factor = ctx.options["prescale_factor"] * ctx.options["postscale_factor"]
        if ctx.options["op"] == ReduceOp.Sum:
            factor *= own.size()
        scaled = [gradient * factor for gradient in gradients]
        return (None, None, *collectives.grouped_allgather_async(scaled, None, own).wait())


def _world_rank(process_set: ProcessSet) -> int:
    return (process_set.ranks or [])[process_set.rank()]


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Reduces the tensor over the ranks, by default to the average; returns a new tensor."""
    return grouped_allreduce(
        *([tensor], average, name, compression, op),
        *(prescale_factor, postscale_factor, process_set),
    )[0]


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    options = {
        "op": collectives.chosen_op(average, op),
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "process_set": process_set,
    }
    check_tensors("allreduce", tensors)
    sent = [compression.compress(tensor) for tensor in tensors]
    reduced = _AllReduce.apply(options, name, *(tensor for tensor, _ in sent))
    pairs = zip(reduced, sent, strict=True)
    return [compression.decompress(each, context) for each, (_, context) in pairs]


def allgather(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Concatenates the rows of all ranks."""
    return _AllGather.apply(name, process_set, tensor)[0]


def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    return list(_AllGather.apply(name, process_set, *tensors))


def broadcast(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor of the root, in a new tensor on every rank."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def alltoall(
    tensor: Tensor,
    splits: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends splits[i] rows to rank i, or equally many to each; the rows that came. With splits
    also how many came from each rank."""
    return _AllToAll.apply(tensor, splits, name, process_set)


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = ReduceOp.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces over the ranks and gives each its rows."""
    return grouped_reducescatter(
        *([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)
    )[0]


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = ReduceOp.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    options = {
        "op": op,
        "process_set": process_set,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
    }
    check_tensors("reducescatter", tensors)
    sent = [compression.compress(tensor) for tensor in tensors]
    reduced = _ReduceScatter.apply(options, name, *(tensor for tensor, _ in sent))
    pairs = zip(reduced, sent, strict=True)
    return [compression.decompress(each, context) for each, (_, context) in pairs]
