"""Changes how the elements of a tensor are divided among ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Interval = tuple[int, int]  # the first element of a flattened tensor, and the one after the last


def exchange(values: Tensor, have: Sequence[Interval], want: Sequence[Interval], group: Any) -> Any:
    """The elements that this rank wants, of a tensor whose elements all ranks have together.

    Every rank calls it. It sends each element to each rank that wants it, once.

    Args:
        values: this rank's elements, one-dimensional.
        have: the elements of each rank. Two ranks have the same, or none in common.
        want: the elements that each rank is to have; any.
    """
    rank, ranks = dist.get_rank(group), range(dist.get_world_size(group))
    first = {interval: each for each, interval in reversed(list(enumerate(have)))}

    def taken(giver: int, taker: int) -> Interval:
        """A rank takes what it has itself from itself, and all else from the first that has it."""
        part = have[giver]
        if giver != (taker if have[taker] == part else first[part]):
            return (0, 0)
        begin, end = max(part[0], want[taker][0]), min(part[1], want[taker][1])
        return (begin, end) if begin < end else (0, 0)

    sent = [taken(rank, taker) for taker in ranks]
    received = [taken(giver, rank) for giver in ranks]
    offset = have[rank][0]
    pieces = [values[begin - offset : end - offset] for begin, end in sent if begin < end]
    buffer = values.new_empty(sum(map(_size, received)))
    dist.all_to_all_single(
        buffer,
        torch.cat(pieces) if pieces else values.new_empty(0),
        [_size(each) for each in received],
        [_size(each) for each in sent],
        group=group,
    )
    # In the order of the elements, which need not be that of the ranks.
    result, at = values.new_empty(_size(want[rank])), 0
    for begin, end in received:
        result[begin - want[rank][0] :][: end - begin] = buffer[at : at + end - begin]
        at += end - begin
    return result


def rows_of(shape: Sequence[int], rank: int, ranks: int) -> Interval:
    """The elements that DTensor's Shard(0) gives to a rank."""
    each = math.ceil(shape[0] / ranks)
    row = math.prod(shape[1:])
    begin, end = (min(number * each, shape[0]) for number in (rank, rank + 1))
    return (begin * row, end * row)


def _size(interval: Interval) -> int:
    return interval[1] - interval[0]
