"""Why the requests of several ranks under one name do not fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockstep.horovod.torch.requests import ReduceOp, Request

# Properties that must be equal on all ranks, and the remedies.
_PROPERTIES: tuple[tuple[str, Callable[[Request], Any], str], ...] = (
    ("type", lambda request: request.type, "cast it to one type"),
    ("device", lambda request: request.device, "move it to one kind of device"),
    ("number of tensors", lambda request: len(request.shapes), "group the same tensors"),
    ("op", lambda request: ReduceOp(request.op).name, "give one op"),
    ("root rank", lambda request: request.root, "give one root_rank"),
    (
        "prescale_factor and postscale_factor",
        lambda request: (request.prescale, request.postscale),
        "give the same factors",
    ),
)
_SAME_SHAPE = ("allreduce", "broadcast", "reducescatter")


def mismatch(requests: dict[int, Request], joined: list[int]) -> str | None:
    """One line that names the tensor, the ranks and the remedy; None if they fit.

    Args:
        requests: by rank, at least one.
        joined: ranks of the process set that have joined and request nothing.
    """
    ranks = sorted(requests)
    first = requests[ranks[0]]
    if all(request == first for request in requests.values()):
        return _after_join(first, joined)
    for what, of, remedy in _PROPERTIES:
        if line := _compare(requests, what, of, remedy):
            return line
    if first.call in _SAME_SHAPE:
        line = _compare(requests, "shape", _shapes, "submit one shape under one name")
    else:
        line = _compare(
            requests,
            "shape after the first dimension",
            lambda request: [list(shape[1:]) for shape in request.shapes],
            "only the first dimension may differ",
        )
    return line or _after_join(first, joined)


def _shapes(request: Request) -> Any:
    shapes = [list(shape) for shape in request.shapes]
    return shapes[0] if len(shapes) == 1 else shapes


def _compare(
    requests: dict[int, Request], what: str, of: Callable[[Request], Any], remedy: str
) -> str | None:
    ranks = sorted(requests)
    expected = of(requests[ranks[0]])
    for rank in ranks[1:]:
        if (found := of(requests[rank])) != expected:
            return (
                f"{requests[ranks[0]].name}: rank {ranks[0]} submits {what} {expected}, "
                f"rank {rank} {found}: {remedy}"
            )
    return None


def _after_join(first: Request, joined: list[int]) -> str | None:
    if not joined or (first.call == "allreduce" and first.op in (ReduceOp.Sum, ReduceOp.Average)):
        return None
    return (
        f"{first.name}: ranks {joined} have joined, which allow allreduce with op Sum or Average "
        "only: call it before hvd.join()"
    )
