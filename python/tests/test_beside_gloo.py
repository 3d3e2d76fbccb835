"""Calls that Gloo supports, too: both backends must give the same results."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor

SIZE = 4
BITWISE = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def gloo() -> dist.ProcessGroup:
    group = dist.new_group(backend="gloo")
    assert group is not None
    return group


def random_bits(rank: int, dtype: torch.dtype, count: int = 1000) -> Tensor:
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(limits.min, limits.max, (count,), generator=generator, dtype=dtype)


def expect_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def bits_of_integers(rank: int) -> None:
    peer = gloo()
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        for operation in BITWISE:
            mine, theirs = random_bits(rank, dtype), random_bits(rank, dtype)
            dist.all_reduce(mine, operation)
            dist.all_reduce(theirs, operation, group=peer)
            expect_equal(mine, theirs)
            mine, theirs = random_bits(rank, dtype), random_bits(rank, dtype)
            dist.reduce(mine, 1, operation)
            dist.reduce(theirs, 1, operation, group=peer)
            if rank == 1:
                expect_equal(mine, theirs)
            shard = torch.empty(250, dtype=dtype)
            dist.reduce_scatter_tensor(shard, random_bits(rank, dtype), operation)
            dist.all_reduce(theirs := random_bits(rank, dtype), operation, group=peer)
            expect_equal(shard, theirs[250 * rank : 250 * (rank + 1)])


def receives_from_any(rank: int, group: dist.ProcessGroup | None) -> dict[int, list[float]]:
    """The messages that rank 0 received, by sender."""
    came: dict[int, list[float]] = {}
    for tag, count in ((4, 3), (5, 50_000)):
        if rank > 0:
            dist.send(torch.full((count,), float(10 * rank)), 0, group=group, tag=tag)
            continue
        for _ in range(SIZE - 1):
            received = torch.empty(count)
            source = dist.recv(received, group=group, tag=tag)
            assert received.unique().numel() == 1
            came.setdefault(source, []).append(received[0].item())
    dist.barrier(group=group)
    return came


def receives_from_whoever_sends(rank: int) -> None:
    mine = receives_from_any(rank, None)
    assert mine == receives_from_any(rank, gloo())
    if rank == 0:
        assert mine == {1: [10, 10], 2: [20, 20], 3: [30, 30]}


def gathers_of_several_tensors(rank: int) -> None:
    def gathered(group: dist.ProcessGroup | None) -> list[list[Tensor]]:
        inputs = [torch.full((3,), float(rank)), torch.arange(2.0 * rank, 2.0 * rank + 2)]
        outputs = [[torch.empty_like(one) for one in inputs] for _ in range(SIZE)]
        dist.all_gather_coalesced(outputs, inputs, group=group)
        return outputs

    for mine, theirs in zip(gathered(None), gathered(gloo()), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            expect_equal(one, other)


@pytest.mark.parametrize(
    "body", [bits_of_integers, receives_from_whoever_sends, gathers_of_several_tensors]
)
def test_it_equals_gloo(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)


def sums_of_what_is_multiplied_first(rank: int) -> None:
    # Gloo does not support it.
    factor = dist._make_nccl_premul_sum(0.5)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        tensor = torch.full((1000,), float(rank), dtype=dtype)
        dist.all_reduce(tensor, factor)
        expect_equal(tensor, torch.full((1000,), 3.0, dtype=dtype))
        shard = torch.empty(250, dtype=dtype)
        whole = torch.full((1000,), float(rank), dtype=dtype)
        dist.reduce_scatter_tensor(shard, whole, factor)
        expect_equal(shard, torch.full((250,), 3.0, dtype=dtype))
        expect_equal(whole, torch.full((1000,), float(rank), dtype=dtype))
    with pytest.raises(TypeError, match="PREMUL_SUM"):
        dist.all_reduce(torch.ones(3, dtype=torch.int32), factor)


def a_handle_knows_who_sent(rank: int) -> None:
    if rank == 0:
        work = dist.irecv(torch.empty(3), tag=9)
        assert work is not None
        with pytest.raises(ValueError, match="done"):
            work._source_rank()
        dist.barrier()
        work.wait()
        assert work._source_rank() == 2
    else:
        dist.barrier()
    if rank == 2:
        dist.send(torch.ones(3), 0, tag=9)


@pytest.mark.parametrize("body", [sums_of_what_is_multiplied_first, a_handle_knows_who_sent])
def test_of_this_backend(body: Callable[[int], None], crew: Crew, backend: str) -> None:
    if backend != "lockstep":
        pytest.skip("of the backend lockstep only")
    crew.run(body)
