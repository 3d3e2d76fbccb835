"""Calls that torch batches: coalesced collectives, and sends and receives that end together."""

import datetime
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor
from torch.distributed.distributed_c10d import _coalescing_manager

SIZE = 4
CPU = torch.device("cpu")


def values(rank: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(-8, 9, shape, generator=generator).to(torch.float64)


def sum_of_values(*shape: int) -> Tensor:
    return torch.stack([values(rank, *shape) for rank in range(SIZE)]).sum(0)


def expect_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def all_reduces_in_a_batch(rank: int) -> None:
    for device in (None, CPU):  # torch's fast path, and its old one through the backend
        tensors = [values(rank, count) for count in (1, 7, 100_000)]
        with _coalescing_manager(device=device):
            for tensor in tensors:
                dist.all_reduce(tensor)
        for tensor in tensors:
            expect_equal(tensor, sum_of_values(tensor.numel()))


def gathers_and_scatters_in_a_batch(rank: int) -> None:
    inputs = [values(rank, 5), values(rank, 3, 2)]
    outputs = [torch.empty(SIZE * len(each), *each.shape[1:]).double() for each in inputs]
    with _coalescing_manager(async_ops=True) as batch:
        for output, each in zip(outputs, inputs, strict=True):
            dist.all_gather_into_tensor(output, each)
    batch.wait()
    for output, each in zip(outputs, inputs, strict=True):
        expect_equal(output, torch.cat([values(peer, *each.shape) for peer in range(SIZE)]))
    shards = [torch.empty_like(each) for each in inputs]
    with _coalescing_manager(async_ops=True) as batch:
        for shard, output in zip(shards, outputs, strict=True):
            dist.reduce_scatter_tensor(shard, output)
    batch.wait()
    for shard, each in zip(shards, inputs, strict=True):
        expect_equal(shard, each * SIZE)


def calls_of_many_kinds_in_a_batch(rank: int) -> None:
    shared = values(rank, 50)
    exchanged = torch.empty(SIZE, 9, dtype=torch.float64)
    received = torch.empty(20_000, dtype=torch.float64)
    with _coalescing_manager(device=CPU, async_ops=True) as batch:
        assert dist.broadcast(shared, src=2, async_op=True) is None
        dist.all_to_all_single(exchanged, values(rank, SIZE, 9))
        dist.irecv(received, (rank - 1) % SIZE)
        dist.isend(values(rank, 20_000), (rank + 1) % SIZE)
        dist.barrier()
    (work,) = batch.works
    work.wait()
    assert work.is_completed() and work.is_success()
    expect_equal(shared, values(2, 50))
    expect_equal(exchanged, torch.stack([values(p, SIZE, 9)[rank] for p in range(SIZE)]))
    expect_equal(received, values((rank - 1) % SIZE, 20_000))
    assert [each.data_ptr() for each in work.result()] == [
        each.data_ptr() for each in (shared, exchanged, received)
    ]


def a_batch_has_a_future(rank: int) -> None:
    tensors = [values(rank, 10), values(rank, 2000)]
    with _coalescing_manager(async_ops=True) as batch:
        for tensor in tensors:
            dist.all_reduce(tensor)
    (work,) = batch.works
    total = work.get_future().then(lambda future: sum(each.sum() for each in future.value()))
    expect_equal(total.wait(), sum_of_values(10).sum() + sum_of_values(2000).sum())


def sends_and_receives_with_all_peers(rank: int) -> None:
    peers = [peer for peer in range(SIZE) if peer != rank]
    received = {peer: torch.empty(30_000, dtype=torch.float64) for peer in peers}
    operations = [dist.P2POp(dist.isend, values(rank, 30_000), peer) for peer in peers]
    operations += [dist.P2POp(dist.irecv, received[peer], peer) for peer in peers]
    works = dist.batch_isend_irecv(operations)
    assert len(works) == 1
    works[0].wait(datetime.timedelta(seconds=10))
    for peer, tensor in received.items():
        expect_equal(tensor, values(peer, 30_000))


def an_empty_batch_is_done(rank: int) -> None:
    with _coalescing_manager(device=CPU, async_ops=True) as batch:
        pass
    batch.wait()


def a_batch_that_failed_leaves_the_group_usable(rank: int) -> None:
    group = dist.group.WORLD
    assert group is not None
    shared = values(rank, 10)
    group._start_coalescing(CPU)
    assert group.broadcast(shared, root=1) is None
    with pytest.raises(TypeError, match="Float by BAND"):
        group.allreduce(torch.ones(2), dist.ReduceOp.BAND)
    group._start_coalescing(CPU)
    assert group.allreduce(shared) is None
    group._end_coalescing(CPU).wait()
    expect_equal(shared, values(1, 10) * SIZE)
    with pytest.raises(ValueError, match="not begun"):
        group._end_coalescing(CPU)


@pytest.mark.parametrize(
    "body",
    [
        all_reduces_in_a_batch,
        gathers_and_scatters_in_a_batch,
        calls_of_many_kinds_in_a_batch,
        a_batch_has_a_future,
        sends_and_receives_with_all_peers,
        an_empty_batch_is_done,
        a_batch_that_failed_leaves_the_group_usable,
    ],
)
def test_a_batch_equals_its_calls(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)
