"""Slice: a rank's elements of a tensor, in the form that torch.distributed.checkpoint reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from torch.distributed.checkpoint.planner import WriteItem

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets and sizes


class Slice(Tensor):
    """A row of elements of a tensor that is divided among ranks, with the whole tensor's shape.

    torch.distributed.checkpoint saves it, and loads into it. It has no other operation.

    Attributes:
        values: the elements, one-dimensional and contiguous; loading writes to them.
        begin: the first of them, in the flattened tensor.
        writes: False if a save takes the elements from other ranks.
    """

    values: Tensor
    begin: int
    writes: bool

    @staticmethod
    def __new__(cls, values: Tensor, shape: Sequence[int], begin: int, writes: bool = True) -> Any:
        return Tensor._make_wrapper_subclass(
            cls, torch.Size(shape), dtype=values.dtype, device=values.device
        )

    def __init__(
        self, values: Tensor, shape: Sequence[int], begin: int, writes: bool = True
    ) -> None:
        self.values, self.begin, self.writes = values, begin, writes

    @property
    def end(self) -> int:
        return int(self.begin + self.values.numel())

    def __repr__(self) -> str:
        return f"Slice({list(self.shape)}, elements {self.begin} to {self.end}, {self.dtype})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Slice, (self.values, tuple(self.shape), self.begin, self.writes)

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        slice_ = arguments[0]
        if function is torch.ops.aten.detach.default:
            return cls(slice_.values, slice_.shape, slice_.begin, slice_.writes)
        if function is torch.ops.aten.new_empty.default:  # an asynchronous save's copy
            values = slice_.values.new_empty(0, **(named or {}))
            return cls(values, arguments[1], slice_.begin, slice_.writes)
        raise ValueError(
            f"{function} of a slice, which is a part of a tensor of {list(slice_.shape)}: "
            "lockstep.state_dict(model) has whole tensors"
        )

    def __create_write_items__(self, name: str, slice_: Slice) -> list[WriteItem]:
        # Not at the top: a program that saves nothing by it need not wait for this import.
        from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
        from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

        if not self.writes:
            return []
        properties = TensorProperties.create_from_tensor(self.values)
        return [
            WriteItem(
                index=MetadataIndex(name, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=self.shape),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

        return [
            ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
            for offsets, sizes in boxes_of(self.shape, self.begin, self.end)
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        for offsets, sizes in boxes_of(self.shape, self.begin, self.end):
            if torch.Size(offsets) == index.offset:
                begin = _flat(self.shape, offsets) - self.begin
                return self.values[begin : begin + math.prod(sizes)].view(sizes)
        raise ValueError(f"{self} has no part of {index.fqn} at {index.offset}")


def boxes_of(shape: Sequence[int], begin: int, end: int) -> Iterator[Box]:
    """The elements begin to end of the flattened tensor, as boxes, in their order.

    For a matrix the rest of a row, whole rows, and the beginning of a row: each of them may be
    missing. Every further dimension may add two boxes.
    """
    if begin == 0 and end == math.prod(shape):
        yield (0,) * len(shape), tuple(shape)
        return
    row = math.prod(shape[1:])
    while begin < end:
        first = begin // row
        if begin % row == 0 and end - begin >= row:
            rows = (end - begin) // row
            yield (first, *(0,) * (len(shape) - 1)), (rows, *shape[1:])
            begin += rows * row
            continue
        stop = min(end, (first + 1) * row)
        for offsets, sizes in boxes_of(shape[1:], begin - first * row, stop - first * row):
            yield (first, *offsets), (1, *sizes)
        begin = stop


def _flat(shape: Sequence[int], offsets: Sequence[int]) -> int:
    """The number in the flattened tensor of the element at these offsets."""
    flat = 0
    for size, offset in zip(shape, offsets, strict=True):
        flat = flat * size + offset
    return flat
