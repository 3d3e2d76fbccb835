"""One rank's request: a named collective that it is ready for, as the other ranks learn of it."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch


class ReduceOp(enum.IntEnum):
    """The numbers are Horovod's."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Shape = tuple[int, ...]
Key = tuple[int, str]  # process set and name


class Request(NamedTuple):
    """A tuple, so that it is cheap to compare and to send."""

    name: str  # with the call in front: "allreduce.layer1"
    call: str  # allreduce, allgather, broadcast, alltoall, reducescatter, barrier
    process_set: int
    type: str = ""  # of the elements: "torch.float32"
    device: str = "cpu"  # its type
    shapes: tuple[Shape, ...] = ()  # several for a grouped call
    op: int = ReduceOp.Sum
    root: int = -1  # rank in the process set
    prescale: float = 1.0
    postscale: float = 1.0
    splits: tuple[int, ...] | None = None  # of alltoall: the rows for each rank

    @property
    def key(self) -> Key:
        return (self.process_set, self.name)


@dataclass
class Response:
    """A request that all ranks of its process set have made, or their error."""

    first: Request  # that of the lowest rank that made one
    requests: dict[int, Request]  # by rank; ranks that have joined are missing
    error: str | None = None

    @functools.cached_property
    def key(self) -> Key:
        return self.first.key

    @functools.cached_property
    def bytes(self) -> int:
        """The size of one rank's tensors."""
        if not self.first.type:
            return 0
        size: int = torch_type(self.first.type).itemsize
        return size * sum(math.prod(shape) for shape in self.first.shapes)

    @functools.cached_property
    def kind(self) -> tuple[object, ...]:
        """All-reduces of one kind can travel in one buffer."""
        first = self.first
        factors = (first.prescale, first.postscale)
        return (first.process_set, first.type, first.device, first.op, *factors)


def torch_type(name: str) -> torch.dtype:
    kind = getattr(torch, name.removeprefix("torch."))
    assert isinstance(kind, torch.dtype)
    return kind
