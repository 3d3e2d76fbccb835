"""Every collective of torch.distributed, against an answer computed by one process alone."""

import datetime
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor

SIZE = 4
REDUCIBLE = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """A rank's input: small whole numbers, whose sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def all_values(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.stack([values(rank, shape, dtype) for rank in range(SIZE)])


def expect_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def all_reduce_of_each_type(rank: int) -> None:
    for dtype in REDUCIBLE:
        tensor = values(rank, (3, 5), dtype)
        dist.all_reduce(tensor)
        expect_equal(tensor, all_values((3, 5), torch.float64).sum(0).to(dtype))


def all_reduce_with_each_operation(rank: int) -> None:
    serial: list[tuple[dist.ReduceOp.RedOpType, Callable[[Tensor], Tensor]]] = [
        (dist.ReduceOp.SUM, lambda all: all.sum(0)),
        (dist.ReduceOp.AVG, lambda all: all.mean(0)),
        (dist.ReduceOp.MIN, lambda all: all.amin(0)),
        (dist.ReduceOp.MAX, lambda all: all.amax(0)),
        (dist.ReduceOp.PRODUCT, lambda all: all.prod(0)),
    ]
    for op, answer in serial:
        tensor = values(rank, (257,))
        dist.all_reduce(tensor, op)
        expect_equal(tensor, answer(all_values((257,))))


def all_reduce_of_many_sizes(rank: int) -> None:
    for count in [0, 1, 2, 3, 5, 1023, 65_537, 1_000_003]:
        tensor = values(rank, (count,), torch.float32)
        dist.all_reduce(tensor)
        expect_equal(tensor, all_values((count,), torch.float32).sum(0))


def all_reduce_of_several_tensors(rank: int) -> None:
    tensors = [values(rank, (7,)), values(rank, (2, 3)), values(rank, ())]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        expect_equal(tensor, all_values(tuple(tensor.shape)).sum(0))


def all_reduce_of_views_with_gaps(rank: int) -> None:
    whole = values(rank, (6, 8))
    before = whole.clone()
    view = whole.t()[1:7:2]
    dist.all_reduce(view)
    expect_equal(view, all_values((6, 8)).sum(0).t()[1:7:2])
    expect_equal(whole.t()[::2], before.t()[::2])


def reduce_changes_the_root_only(rank: int) -> None:
    for root in range(SIZE):
        tensor = values(rank, (33,))
        dist.reduce(tensor, root)
        expect_equal(tensor, all_values((33,)).sum(0) if rank == root else values(rank, (33,)))


def broadcast_of_each_type(rank: int) -> None:
    types = [*REDUCIBLE, torch.bool, torch.uint8, torch.int8, torch.int16, torch.complex64]
    for root, dtype in enumerate(types):
        tensor = values(rank, (9, 2), dtype)
        dist.broadcast(tensor, root % SIZE)
        expect_equal(tensor, values(root % SIZE, (9, 2), dtype))


def all_gather_in_each_form(rank: int) -> None:
    mine = values(rank, (4, 3))
    gathered = [torch.empty_like(mine) for _ in range(SIZE)]
    dist.all_gather(gathered, mine)
    expect_equal(torch.stack(gathered), all_values((4, 3)))
    flat = torch.empty(SIZE * 4, 3, dtype=mine.dtype)
    dist.all_gather_into_tensor(flat, mine)
    expect_equal(flat, all_values((4, 3)).reshape(SIZE * 4, 3))
    flags = torch.empty(SIZE, dtype=torch.bool)
    dist.all_gather_into_tensor(flags, torch.tensor([rank % 2 == 0]))
    assert flags.tolist() == [True, False, True, False]


def reduce_scatter_in_each_form(rank: int) -> None:
    mine = values(rank, (SIZE, 6))
    expected = all_values((SIZE, 6)).sum(0)[rank]
    output = torch.empty(6, dtype=mine.dtype)
    dist.reduce_scatter(output, list(mine.unbind()))
    expect_equal(output, expected)
    output.zero_()
    dist.reduce_scatter_tensor(output, mine)
    expect_equal(output, expected)
    dist.reduce_scatter_tensor(output, mine, dist.ReduceOp.AVG)
    expect_equal(output, expected / SIZE)


def several_at_once(rank: int) -> None:
    inputs = [values(rank, (5,)), values(rank, (2, 2))]
    outputs = [tensor.repeat(SIZE, *[1] * (tensor.dim() - 1)) for tensor in inputs]
    group = dist.group.WORLD
    assert group is not None
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    for tensor, output in zip(inputs, outputs, strict=True):
        expect_equal(output, all_values(tuple(tensor.shape)).flatten(0, 1))
    shards = [torch.empty_like(tensor) for tensor in inputs]
    group.reduce_scatter_tensor_coalesced(shards, outputs).wait()
    for tensor, shard in zip(inputs, shards, strict=True):
        expect_equal(shard, tensor * SIZE)


def gather_to_a_root(rank: int) -> None:
    mine = values(rank, (3, 2))
    gathered = [torch.empty_like(mine) for _ in range(SIZE)] if rank == 2 else None
    dist.gather(mine, gathered, dst=2)
    if gathered is not None:
        expect_equal(torch.stack(gathered), all_values((3, 2)))


def scatter_from_a_root(rank: int) -> None:
    output = torch.empty(3, 2, dtype=torch.float64)
    dist.scatter(output, list(all_values((3, 2)).unbind()) if rank == 1 else None, src=1)
    expect_equal(output, values(rank, (3, 2)))


def all_to_all_in_each_form(rank: int) -> None:
    mine = values(rank, (SIZE, 5))
    expected = torch.stack([values(peer, (SIZE, 5))[rank] for peer in range(SIZE)])
    output = torch.empty_like(mine)
    dist.all_to_all_single(output, mine)
    expect_equal(output, expected)
    parts = [torch.empty(5, dtype=mine.dtype) for _ in range(SIZE)]
    dist.all_to_all(parts, list(mine.unbind()))
    expect_equal(torch.stack(parts), expected)


def all_to_all_with_uneven_parts(rank: int) -> None:
    # To rank p go p + 1 rows, so every rank receives rank + 1 rows from each.
    sends = [peer + 1 for peer in range(SIZE)]
    mine = values(rank, (sum(sends), 2))
    output = torch.empty(SIZE * (rank + 1), 2, dtype=mine.dtype)
    dist.all_to_all_single(output, mine, [rank + 1] * SIZE, sends)
    first = sum(sends[:rank])
    expected = [values(peer, (sum(sends), 2))[first : first + rank + 1] for peer in range(SIZE)]
    expect_equal(output, torch.cat(expected))


def send_and_receive_around_a_ring(rank: int) -> None:
    left, right = (rank - 1) % SIZE, (rank + 1) % SIZE
    received = torch.empty(1000, dtype=torch.float64)
    request = dist.irecv(received, left, tag=7)
    dist.send(values(rank, (1000,)), right, tag=7)
    assert request is not None
    request.wait()
    expect_equal(received, values(left, (1000,)))


def receive_by_tag(rank: int) -> None:
    if rank == 0:
        requests = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (1, 2, 3)]
        for request in requests:
            assert request is not None
            request.wait()
    if rank == 1:
        for tag in (3, 1, 2):
            received = torch.empty(1)
            dist.recv(received, 0, tag=tag)
            assert received.item() == tag


def exchange_in_one_batch(rank: int) -> None:
    left, right = (rank - 1) % SIZE, (rank + 1) % SIZE
    received = torch.empty(10, dtype=torch.float64)
    operations = [
        dist.P2POp(dist.isend, values(rank, (10,)), right),
        dist.P2POp(dist.irecv, received, left),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    expect_equal(received, values(left, (10,)))


def asynchronous_calls_and_their_futures(rank: int) -> None:
    tensors = [values(rank, (100 + index,)) for index in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for tensor, work in zip(tensors, works, strict=True):
        assert work is not None
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        expect_equal(doubled.wait(), all_values(tuple(tensor.shape)).sum(0) * 2)
        work.wait()
        assert work.is_completed()


def calls_nobody_waits_for(rank: int) -> None:
    tensor = values(rank, (5000,))
    for _ in range(3):
        dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    expect_equal(tensor, all_values((5000,)).sum(0) * SIZE * SIZE)


def objects_of_any_kind(rank: int) -> None:
    mine = {"rank": rank, "text": "x" * (rank * 1000)}
    gathered: list[object] = [None] * SIZE
    dist.all_gather_object(gathered, mine)
    assert [entry["rank"] for entry in gathered] == [0, 1, 2, 3]  # type: ignore[index]
    shared = [mine if rank == 3 else None]
    dist.broadcast_object_list(shared, src=3)
    assert shared[0] == {"rank": 3, "text": "x" * 3000}
    collected: list[object] | None = [None] * SIZE if rank == 0 else None
    dist.gather_object(mine, collected, dst=0)
    assert rank != 0 or (collected is not None and collected[3] == shared[0])
    output: list[object] = [None]
    dist.scatter_object_list(output, ["a", "b", "c", "d"] if rank == 0 else None, src=0)
    assert output[0] == "abcd"[rank]


def groups_within_the_group(rank: int) -> None:
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    pairs = [dist.new_group([0, 2]), dist.new_group([3, 1])]
    half, pair = halves[rank // 2], pairs[rank % 2]
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=half)
    assert tensor.item() == (1 if rank < 2 else 5)
    dist.all_reduce(tensor, group=pair)
    assert tensor.item() == 6
    dist.barrier(group=pair)
    dist.destroy_process_group(half)
    dist.all_reduce(tensor)
    assert tensor.item() == 24


def barrier_after_barrier(rank: int) -> None:
    for _ in range(20):
        dist.barrier()
    work = dist.barrier(async_op=True)
    assert work is not None
    work.wait(datetime.timedelta(seconds=10))


@pytest.mark.parametrize(
    "body",
    [
        all_reduce_of_each_type,
        all_reduce_with_each_operation,
        all_reduce_of_many_sizes,
        all_reduce_of_several_tensors,
        all_reduce_of_views_with_gaps,
        reduce_changes_the_root_only,
        broadcast_of_each_type,
        all_gather_in_each_form,
        reduce_scatter_in_each_form,
        several_at_once,
        gather_to_a_root,
        scatter_from_a_root,
        all_to_all_in_each_form,
        all_to_all_with_uneven_parts,
        send_and_receive_around_a_ring,
        receive_by_tag,
        exchange_in_one_batch,
        asynchronous_calls_and_their_futures,
        calls_nobody_waits_for,
        objects_of_any_kind,
        groups_within_the_group,
        barrier_after_barrier,
    ],
)
def test_it_equals_the_serial_answer(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)
