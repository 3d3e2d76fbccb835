"""Tensors of each type and memory layout, and the properties of a group."""

import datetime
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor

SIZE = 4
INTEGERS = [
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
]
REDUCTIONS: list[tuple[dist.ReduceOp.RedOpType, Callable[[Tensor], Tensor]]] = [
    (dist.ReduceOp.SUM, lambda all: all.sum(0)),
    (dist.ReduceOp.MIN, lambda all: all.amin(0)),
    (dist.ReduceOp.MAX, lambda all: all.amax(0)),
    (dist.ReduceOp.PRODUCT, lambda all: all.prod(0)),
]
LOGIC: list[tuple[dist.ReduceOp.RedOpType, Callable[[Tensor], Tensor]]] = [
    (dist.ReduceOp.MIN, lambda all: all.all(0)),
    (dist.ReduceOp.PRODUCT, lambda all: all.all(0)),
    (dist.ReduceOp.BAND, lambda all: all.all(0)),
    (dist.ReduceOp.MAX, lambda all: all.any(0)),
    (dist.ReduceOp.SUM, lambda all: all.any(0)),
    (dist.ReduceOp.BOR, lambda all: all.any(0)),
    (dist.ReduceOp.BXOR, lambda all: all.sum(0) % 2 == 1),
]


def values(rank: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(0, 120, shape, generator=generator).to(dtype)


def all_values(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.stack([values(rank, *shape, dtype=dtype) for rank in range(SIZE)])


def expect_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def integers_of_each_width(rank: int) -> None:
    for dtype in INTEGERS:
        everything = all_values(33, dtype=dtype).to(torch.int64)
        for operation, answer in REDUCTIONS:
            expected = answer(everything).to(dtype)  # sums wrap around
            tensor = values(rank, 33, dtype=dtype)
            dist.all_reduce(tensor, operation)
            expect_equal(tensor, expected)
            shard = torch.empty(33, dtype=dtype)
            wide = values(rank, 33, dtype=dtype).repeat(SIZE)
            dist.reduce_scatter_tensor(shard, wide, operation)
            expect_equal(shard, expected)
            tensor = values(rank, 33, dtype=dtype)
            dist.reduce(tensor, 1, operation)
            expect_equal(tensor, expected if rank == 1 else values(rank, 33, dtype=dtype))


def truth_values(rank: int) -> None:
    everything = torch.arange(SIZE * 16).reshape(SIZE, 16) % 5 != 0
    everything[:, 0], everything[:, 1] = True, False
    for operation, answer in LOGIC:
        tensor = everything[rank].clone()
        dist.all_reduce(tensor, operation)
        expect_equal(tensor, answer(everything))


def complex_numbers(rank: int) -> None:
    mine = torch.complex(values(rank, 9), values(rank + 1, 9))
    everyone = [torch.complex(values(r, 9), values(r + 1, 9)) for r in range(SIZE)]
    total = mine.clone()
    dist.all_reduce(total)
    expect_equal(total, torch.stack(everyone).sum(0))
    mean = mine.clone()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    expect_equal(mean, torch.stack(everyone).mean(0))
    gathered = [torch.empty_like(mine) for _ in range(SIZE)]
    dist.all_gather(gathered, mine)
    expect_equal(torch.stack(gathered), torch.stack(everyone))
    exchanged = torch.empty(SIZE, 2, dtype=mine.dtype)
    dist.all_to_all_single(exchanged, mine[:8].reshape(SIZE, 2))
    expect_equal(exchanged, torch.stack([e[2 * rank : 2 * rank + 2] for e in everyone]))


def complex_numbers_in_each_reduction(rank: int) -> None:
    for dtype in (torch.complex64, torch.complex128):
        mine = torch.complex(values(rank, 9), values(rank + 1, 9)).to(dtype)
        total = torch.stack(
            [torch.complex(values(r, 9), values(r + 1, 9)).to(dtype) for r in range(SIZE)]
        ).sum(0)
        tensor = mine.clone()
        dist.reduce(tensor, 1)
        expect_equal(tensor, total if rank == 1 else mine)
        with_gaps = torch.zeros(9, 2, dtype=dtype)[:, 0]
        dist.reduce_scatter_tensor(with_gaps, mine.repeat(SIZE))
        expect_equal(with_gaps, total)
        with pytest.raises(TypeError, match=r"does not reduce Complex.* by PRODUCT"):
            dist.reduce(mine, 1, dist.ReduceOp.PRODUCT)


def bytes_of_any_type(rank: int) -> None:
    for dtype in (torch.float8_e4m3fn, torch.bool, torch.int16, torch.uint16, torch.complex128):
        gathered = torch.empty(SIZE * 3, dtype=dtype)
        mine = torch.arange(3).add(rank).to(dtype)
        dist.all_gather_into_tensor(gathered, mine)
        expected = torch.cat([torch.arange(3).add(peer).to(dtype) for peer in range(SIZE)])
        assert torch.equal(gathered.view(torch.uint8), expected.view(torch.uint8))


def views_with_gaps(rank: int) -> None:
    def gapped(tensor: Tensor) -> Tensor:
        holder = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
        holder[..., 0] = tensor
        return holder[..., 0]

    mine, everything = values(rank, SIZE, 5), all_values(SIZE, 5)
    reduced = gapped(mine)
    dist.reduce(reduced, 2)
    expect_equal(reduced, everything.sum(0) if rank == 2 else mine)
    scattered, exchanged = gapped(torch.empty(5).double()), gapped(torch.empty_like(mine))
    dist.reduce_scatter_tensor(scattered, gapped(mine))
    expect_equal(scattered, everything.sum(0)[rank])
    dist.all_to_all_single(exchanged, gapped(mine))
    expect_equal(exchanged, everything[:, rank])
    gathered = [gapped(torch.empty_like(mine)) for _ in range(SIZE)] if rank == 3 else None
    dist.gather(gapped(mine), gathered, dst=3)
    if gathered is not None:
        expect_equal(torch.stack(gathered), everything)
    output = gapped(torch.empty_like(mine))
    sources = [gapped(each) for each in everything] if rank == 1 else None
    dist.scatter(output, sources, src=1)
    expect_equal(output, mine)
    if rank == 0:
        dist.send(mine.t(), 1)
    if rank == 1:
        received = gapped(torch.empty(5, SIZE).double())
        dist.recv(received, 0)
        expect_equal(received, everything[0].t())


def lists_whose_tensors_lie_in_order(rank: int) -> None:
    for count in (3, 50_000):
        everything = all_values(count)
        block = torch.empty_like(everything)
        dist.all_gather(list(block), everything[rank])
        expect_equal(block, everything)
        block.zero_()
        dist.gather(everything[rank], list(block) if rank == 0 else None, dst=0)
        expect_equal(block, everything if rank == 0 else torch.zeros_like(block))
        output = torch.empty(count, dtype=torch.float64)
        dist.scatter(output, list(everything) if rank == 2 else None, src=2)
        expect_equal(output, everything[rank])
        dist.reduce_scatter(output, list(everything))
        expect_equal(output, everything[rank] * SIZE)
        backwards = list(block.zero_())[::-1]
        dist.all_gather(backwards, everything[rank])
        expect_equal(block, everything.flip(0))


def results_in_the_place_of_operands(rank: int) -> None:
    for count in (1, 2000, 300_000):
        everything = all_values(SIZE, count)
        whole = everything[rank].clone()
        dist.reduce_scatter_tensor(whole[rank], whole)
        expect_equal(whole[rank], everything.sum(0)[rank])
        whole = torch.zeros(SIZE, count, dtype=torch.float64)
        whole[rank] = values(rank, count)
        dist.all_gather_into_tensor(whole, whole[rank])
        expect_equal(whole, all_values(count))
        whole = everything[rank].clone()
        dist.all_to_all_single(whole, whole)
        expect_equal(whole, everything[:, rank])
        whole = everything[rank].clone()
        dist.scatter(whole[rank], list(whole) if rank == 1 else None, src=1)
        expect_equal(whole[rank], everything[1][rank])


def memory_that_the_group_lends(rank: int) -> None:
    group = dist.group.WORLD
    assert group is not None
    backend = group._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    for dtype in (torch.float64, torch.bfloat16):
        lent = backend.allocate_tensor(5000, dtype=dtype, device=torch.device("cpu"))
        assert (lent.shape, lent.dtype, lent.count_nonzero()) == ((5000,), dtype, 0)
        lent += values(rank, 5000).remainder(8).to(dtype)
        dist.all_reduce(lent)
        expect_equal(lent, all_values(5000).remainder(8).sum(0).to(dtype))
        whole = backend.allocate_tensor(SIZE * 5000, dtype=dtype, device=torch.device("cpu"))
        dist.all_gather_into_tensor(whole, lent)
        expect_equal(whole, lent.repeat(SIZE))
        dist.reduce_scatter_tensor(lent, whole)
        expect_equal(lent, whole[:5000] * SIZE)


def what_a_group_tells(rank: int) -> None:
    group = dist.group.WORLD
    assert group is not None
    assert dist.get_backend() == "lockstep"
    assert dist.get_backend_config() == "cpu:lockstep"
    backend = group._get_backend(torch.device("cpu"))
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    dist.barrier(device_ids=[0])
    dist.barrier(timeout=datetime.timedelta(seconds=10))
    assert backend._get_sequence_number_for_group() == before + 3


def calls_that_torch_has_and_we_do_not(rank: int) -> None:
    with pytest.raises(NotImplementedError, match="SparseCPU"):  # torch's own
        dist.broadcast(torch.eye(3).to_sparse(), 0)
    with pytest.raises(ValueError, match="pg_options"):
        dist.new_group(pg_options=object())
    dist.barrier()


EVERYWHERE = [
    integers_of_each_width,
    truth_values,
    complex_numbers,
    bytes_of_any_type,
    views_with_gaps,
    lists_whose_tensors_lie_in_order,
    results_in_the_place_of_operands,
]


@pytest.mark.parametrize("body", EVERYWHERE)
def test_it_equals_the_serial_answer(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)


OURS = [
    complex_numbers_in_each_reduction,
    memory_that_the_group_lends,
    what_a_group_tells,
    calls_that_torch_has_and_we_do_not,
]


@pytest.mark.parametrize("body", OURS)
def test_of_this_backend(body: Callable[[int], None], crew: Crew, backend: str) -> None:
    if backend != "lockstep":
        pytest.skip("of the backend lockstep only")
    crew.run(body)
