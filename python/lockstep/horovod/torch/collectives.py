"""The collectives of Horovod that return a handle, those in place, and those on handles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch.errors import InvalidRequestError
from lockstep.horovod.torch.process_sets import ProcessSet, global_process_set
from lockstep.horovod.torch.requests import ReduceOp
from lockstep.horovod.torch.submit import check_group, check_root, check_rows, submit
from lockstep.horovod.torch.worker import Handle
from lockstep.horovod.torch.world import world

_SCATTERED = (ReduceOp.Average, ReduceOp.Sum, ReduceOp.Min, ReduceOp.Max, ReduceOp.Product)


def chosen_op(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    """`average` is Horovod's older parameter."""
    if average is not None and op is not None:
        raise ValueError("allreduce: give op or average, not both")
    if average is not None:
        return ReduceOp.Average if average else ReduceOp.Sum
    return ReduceOp.Average if op is None else ReduceOp(op)


def _first(results: list[Tensor]) -> Tensor:
    return results[0]


def _as_given(outputs: Sequence[Tensor]) -> Callable[[Any], Any]:
    return lambda _: list(outputs)


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Reduces the tensor over the ranks; synchronize() returns the result in a new tensor."""
    return submit(
        *("allreduce", [tensor], name, process_set, _first, False, chosen_op(average, op)),
        prescale=prescale_factor,
        postscale=postscale_factor,
    )


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place."""
    return submit(
        *("allreduce", [tensor], name, process_set, lambda _: tensor, True),
        op=chosen_op(average, op),
        prescale=prescale_factor,
        postscale=postscale_factor,
    )


def allreduce_(tensor: Tensor, *arguments: Any, **named: Any) -> Any:
    return synchronize(allreduce_async_(tensor, *arguments, **named))


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Several tensors under one name: none is reduced before all are there."""
    check_group("allreduce", tensors)
    factors: dict[str, Any] = {"prescale": prescale_factor, "postscale": postscale_factor}
    reduction = chosen_op(average, op)
    return submit("allreduce", tensors, name, process_set, list, op=reduction, **factors)


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place."""
    check_group("allreduce", tensors)
    factors: dict[str, Any] = {"prescale": prescale_factor, "postscale": postscale_factor}
    reduction = chosen_op(average, op)
    return submit(
        *("allreduce", tensors, name, process_set, _as_given(tensors), True),
        op=reduction,
        **factors,
    )


def grouped_allreduce_(tensors: Sequence[Tensor], *arguments: Any, **named: Any) -> Any:
    return synchronize(grouped_allreduce_async_(tensors, *arguments, **named))


def sparse_allreduce_async(
    tensor: Tensor,
    name: str | None,
    op: ReduceOp = ReduceOp.Average,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], Tensor]:
    """Gathers the entries of all ranks. The handle is a function that returns the sum or average;
    synchronize() calls it, too."""
    if op not in (ReduceOp.Sum, ReduceOp.Average):
        raise InvalidRequestError("sparse_allreduce_async: op must be Sum or Average")
    entries = tensor.coalesce()
    prefix = name or "sparse"
    indices = allgather_async(entries.indices().t().contiguous(), f"{prefix}.indices", process_set)
    values = allgather_async(entries.values(), f"{prefix}.values", process_set)

    def finish() -> Tensor:
        gathered = values.wait()
        if op == ReduceOp.Average:
            gathered = gathered / process_set.size()
        return torch.sparse_coo_tensor(indices.wait().t(), gathered, tensor.shape).coalesce()

    return finish


def allgather_async(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Concatenates the rows of all ranks, which may have different numbers of them."""
    check_rows("allgather", tensor)
    return submit("allgather", [tensor], name, process_set, _first)


def grouped_allgather_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    check_group("allgather", tensors)
    for tensor in tensors:
        check_rows("allgather", tensor)
    return submit("allgather", tensors, name, process_set, list)


def broadcast_async(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """`root_rank` is a rank of the world, also with a process set."""
    world("broadcast()")
    root = check_root("broadcast", root_rank, process_set)
    return submit("broadcast", [tensor], name, process_set, _first, root=root)


def broadcast_async_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place."""
    world("broadcast_()")
    root = check_root("broadcast", root_rank, process_set)
    return submit("broadcast", [tensor], name, process_set, lambda _: tensor, True, root=root)


def broadcast_(tensor: Tensor, *arguments: Any, **named: Any) -> Any:
    return synchronize(broadcast_async_(tensor, *arguments, **named))


def alltoall_async(
    tensor: Tensor,
    splits: Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Sends splits[i] rows to rank i. With splits the result is (rows, number of rows by rank)."""
    world("alltoall()")
    check_rows("alltoall", tensor)
    rows = _checked_splits(tensor, splits, process_set.size())
    finish = _first if splits is None else tuple
    return submit("alltoall", [tensor], name, process_set, finish, splits=rows)


def _checked_splits(
    tensor: Tensor, splits: Tensor | Sequence[int] | None, size: int
) -> tuple[int, ...]:
    rows = tensor.shape[0]
    if splits is None:
        if rows % size:
            raise InvalidRequestError(
                f"alltoall: {rows} rows do not divide among {size} ranks: pass splits"
            )
        return (rows // size,) * size
    if isinstance(splits, Tensor) and (splits.is_floating_point() or splits.dim() != 1):
        raise InvalidRequestError(
            f"alltoall: splits is {splits.dtype} with {splits.dim()} dimensions: pass one row of "
            "integers"
        )
    chosen = tuple(int(each) for each in splits)
    if len(chosen) != size or sum(chosen) != rows or min(chosen) < 0:
        raise InvalidRequestError(
            f"alltoall: splits {list(chosen)} must be {size} numbers, one for each rank, with the "
            f"sum {rows}, the rows of the tensor"
        )
    return chosen


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: ReduceOp = ReduceOp.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Reduces over the ranks and gives each its rows; the first ranks get one more."""
    _check_scattered([tensor], op)
    factors: dict[str, Any] = {"prescale": prescale_factor, "postscale": postscale_factor}
    return submit("reducescatter", [tensor], name, process_set, _first, op=op, **factors)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: ReduceOp = ReduceOp.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    check_group("reducescatter", tensors)
    _check_scattered(tensors, op)
    factors: dict[str, Any] = {"prescale": prescale_factor, "postscale": postscale_factor}
    return submit("reducescatter", tensors, name, process_set, list, op=op, **factors)


def _check_scattered(tensors: Sequence[Tensor], op: ReduceOp) -> None:
    for tensor in tensors:
        check_rows("reducescatter", tensor)
    if op not in _SCATTERED:
        raise InvalidRequestError(
            f"reducescatter: op {ReduceOp(op).name} is for allreduce only: give Average or Sum"
        )


def poll(handle: Any) -> bool:
    """True if synchronize() would return at once."""
    return _checked(handle).is_done()


def synchronize(handle: Any) -> Any:
    """Waits; the result, or the error of the collective."""
    if isinstance(handle, Handle):
        return handle.wait()
    return handle() if callable(handle) else _checked(handle).wait()


def _checked(handle: Any) -> Handle:
    if not isinstance(handle, Handle):
        raise ValueError(f"{handle!r} is not a handle: pass what a call named ..._async returned")
    return handle


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank of the set has called it."""
    submit("barrier", [], None, process_set, lambda _: None).wait()


def join(device: int = -1) -> int:
    """This rank has no more data: it contributes zeros until all ranks have joined.

    Returns: the rank that joined last.
    """
    current = world("join()")
    last = current.worker.join()
    current.counters.clear()  # the ranks may have made different numbers of calls
    return last
