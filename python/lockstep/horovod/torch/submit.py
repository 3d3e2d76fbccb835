"""From a call of a script to a request: names, checks, and the handle of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch.errors import InvalidRequestError
from lockstep.horovod.torch.process_sets import ProcessSet
from lockstep.horovod.torch.requests import ReduceOp, Request
from lockstep.horovod.torch.worker import Handle, Worker
from lockstep.horovod.torch.world import world


def submit(
    call: str,
    tensors: Sequence[Tensor],
    name: str | None,
    process_set: ProcessSet,
    finish: Callable[[Any], Any],
    in_place: bool = False,
    op: int = ReduceOp.Sum,
    root: int = -1,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: tuple[int, ...] | None = None,
) -> Handle:
    """Returns at once.

    Args:
        finish: makes of the list of results what the caller gets.
        in_place: the results go into the tensors, not into new ones.
        op: with the arguments that follow, as in Request.
    """
    current = world(f"{call}()")
    number = process_set.process_set_id
    if number is None:
        raise ValueError(
            f"{call}: {process_set} is not in use: pass it to hvd.add_process_set() first"
        )
    if not process_set.has_this_rank:
        raise InvalidRequestError(
            f"{call}: rank {current.rank} is not in {process_set}: call it on the ranks of the set"
        )
    if name is None:
        count = current.counters[number, call] = current.counters.get((number, call), 0) + 1
        name = f"noname.{count}"
    name = f"{call}.{name}"
    check_tensors(name, tensors)
    kind, device = "", "cpu"
    if tensors:
        kind = str(tensors[0].dtype)
        device = "cpu" if tensors[0].is_cpu else tensors[0].device.type
    shapes = tuple([tuple(tensor.shape) for tensor in tensors])
    # By position, because keywords would take longer than all the rest of the request.
    request = Request(
        *(name, call, number, kind, device, shapes, op, root, prescale, postscale, splits)
    )
    inputs = [tensor.detach() if tensor.requires_grad else tensor for tensor in tensors]
    return _begin(current.worker, request, inputs, inputs if in_place else None, finish)


def submit_again(request: Request, tensors: list[Tensor], finish: Callable[[Any], Any]) -> Handle:
    """Submits a request that submit() has made before, in place. The tensors are of the same kinds
    and need no gradient."""
    return _begin(world(f"{request.call}()").worker, request, tensors, tensors, finish)


def _begin(
    worker: Worker,
    request: Request,
    inputs: list[Tensor],
    outputs: list[Tensor] | None,
    finish: Callable[[Any], Any],
) -> Handle:
    handle = Handle(worker, request, inputs, outputs, finish)
    if request.device == "cuda":
        handle.device_ready = torch.cuda.current_stream().record_event()
    worker.submit(handle)
    return handle


def check_group(call: str, tensors: Sequence[Tensor]) -> None:
    """The tensors of a grouped call have one type and one kind of device."""
    if not tensors:
        raise InvalidRequestError(f"grouped {call}: the list of tensors is empty")
    for what, found in (
        ("type", {str(each.dtype) for each in tensors}),
        ("device", {each.device.type for each in tensors}),
    ):
        if len(found) > 1:
            raise InvalidRequestError(
                f"grouped {call}: the tensors have more than one {what}, {sorted(found)}: group "
                "those of one"
            )


def check_rows(call: str, tensor: Tensor) -> None:
    if tensor.dim() == 0:
        raise InvalidRequestError(
            f"{call}: a tensor without dimensions has no rows: pass tensor.reshape(1)"
        )


def check_root(call: str, root: int, process_set: ProcessSet) -> int:
    """The root's rank in the process set; `root` is its rank in the world."""
    ranks = process_set.ranks or []
    if root not in ranks:
        raise InvalidRequestError(
            f"{call}: root_rank {root} is not a rank of {process_set}: give one of {ranks}"
        )
    return ranks.index(root)


def check_tensors(what: str, tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}: takes a torch.Tensor, got {type(tensor).__name__}")
        if tensor.is_sparse:
            raise InvalidRequestError(
                f"{what}: the tensor is sparse: use hvd.sparse_allreduce_async(), or to_dense()"
            )
