"""lockstep.horovod.torch: each call on four ranks against an obvious answer."""

import functools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from ranks import Crew

import lockstep.horovod.torch as hvd
from lockstep.horovod.torch.world import world

SIZE = 4
TYPES = (
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
)
FLOATS = (torch.float32, torch.float64)


@pytest.fixture(scope="module")
def ranks() -> Iterator[Crew]:
    crew = Crew(SIZE, 1, "lockstep")
    yield crew
    crew.dismiss()


def initialized(check: Callable[[int], None], rank: int) -> None:
    hvd.init()  # after a failure the ranks are new ones
    check(rank)


def values(*shape: int, type: torch.dtype = torch.float32, rank: int = 0) -> torch.Tensor:
    """Small whole numbers, which every type can represent and sum."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) + 3 * rank) % 11).reshape(shape).to(type)


def of_all(*shape: int, type: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [values(*shape, type=type, rank=rank) for rank in range(SIZE)]


def fails(call: Callable[[], Any], *parts: str) -> None:
    """One line that has these parts; the ranks stay usable."""
    with pytest.raises((ValueError, TypeError, AssertionError, RuntimeError)) as failure:
        call()
    assert not isinstance(failure.value, hvd.HorovodInternalError)
    line = str(failure.value)
    assert "\n" not in line
    for part in parts:
        assert part in line, line


def ranks_and_sizes(rank: int) -> None:
    assert hvd.is_initialized()
    assert (hvd.rank(), hvd.size()) == (rank, SIZE)
    assert (hvd.local_rank(), hvd.local_size()) == (rank, SIZE)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()


def built(rank: int) -> None:
    assert hvd.gloo_built() and hvd.gloo_enabled()
    assert not (hvd.mpi_built() or hvd.mpi_enabled() or hvd.mpi_threads_supported())
    assert not (hvd.ddl_built() or hvd.ccl_built())
    assert hvd.nccl_built() == torch.distributed.is_nccl_available()
    assert hvd.cuda_built() == (torch.version.cuda is not None)
    assert hvd.rocm_built() == (torch.version.hip is not None)


def allreduce_of_every_type(rank: int) -> None:
    for type in TYPES:
        for shape in ((), (17,), (5, 3), (3, 2, 4)):
            own = values(*shape, type=type, rank=rank)
            before = own.clone()
            result = hvd.allreduce(own, op=hvd.Sum)
            assert torch.equal(result, sum(of_all(*shape, type=type)))
            assert torch.equal(own, before)


def allreduce_average(rank: int) -> None:
    for type in TYPES:
        expected = sum(of_all(17, type=type)).double() / SIZE
        expected = expected if type.is_floating_point else expected.trunc()
        assert torch.equal(hvd.allreduce(values(17, type=type, rank=rank)).double(), expected)
    assert torch.equal(hvd.allreduce(values(3, rank=rank), average=False), sum(of_all(3)))


def allreduce_other_ops(rank: int) -> None:
    every = torch.stack(of_all(9, type=torch.int64))
    own = values(9, type=torch.int64, rank=rank)
    assert torch.equal(hvd.allreduce(own, op=hvd.Min), every.min(0).values)
    assert torch.equal(hvd.allreduce(own, op=hvd.Max), every.max(0).values)
    assert torch.equal(hvd.allreduce(own, op=hvd.Product), every.prod(0))


def allreduce_in_place(rank: int) -> None:
    own = values(6, 5, rank=rank)
    assert hvd.allreduce_(own, op=hvd.Sum) is own
    assert torch.equal(own, sum(of_all(6, 5)))
    across = values(6, 5, rank=rank).t()
    hvd.allreduce_(across, op=hvd.Sum)
    assert torch.equal(across, sum(of_all(6, 5)).t())


def allreduce_fused(rank: int) -> None:
    handles = [
        hvd.allreduce_async(values(size, rank=rank), name=f"fused.{size}", op=hvd.Sum)
        for size in range(1, 60)
    ]
    for size, handle in enumerate(handles, 1):
        assert torch.equal(hvd.synchronize(handle), sum(of_all(size)))
        assert hvd.poll(handle)


def allreduce_fused_of_every_layout(rank: int) -> None:
    """Tensors whose elements are not one after another travel with others."""
    own = values(6, 5, rank=rank)
    phases = torch.complex(own, -own)
    calls: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {
        "rows": lambda: (own.clone(), sum(of_all(6, 5))),
        "transposed": lambda: (own.clone().t(), sum(of_all(6, 5)).t()),
        "strided": lambda: (own.clone()[:, ::2], sum(of_all(6, 5))[:, ::2]),
        "channels": lambda: (
            values(2, 3, 2, 2, rank=rank).contiguous(memory_format=torch.channels_last),
            sum(of_all(2, 3, 2, 2)),
        ),
        "scalar": lambda: (torch.tensor(float(rank)), torch.tensor(6.0)),
        "empty": lambda: (torch.empty(0, 3), torch.empty(0, 3)),
        "parameter": lambda: (torch.nn.Parameter(own.clone()), sum(of_all(6, 5))),
        "complex": lambda: (
            phases.clone(),
            torch.complex(sum(of_all(6, 5)), -sum(of_all(6, 5))),
        ),
        "conjugate": lambda: (
            phases.clone().conj(),
            torch.complex(sum(of_all(6, 5)), sum(of_all(6, 5))),
        ),
    }
    for _ in range(2):  # the second time from the cache
        new = {
            name: hvd.allreduce_async(call()[0], name=f"new.{name}", op=hvd.Sum)
            for name, call in calls.items()
        }
        owned = {name: call()[0] for name, call in calls.items()}
        placed = {
            name: hvd.allreduce_async_(tensor, name=f"placed.{name}", op=hvd.Sum)
            for name, tensor in owned.items()
        }
        for name, call in calls.items():
            _, expected = call()
            assert torch.equal(hvd.synchronize(new[name]), expected), name
            assert hvd.synchronize(placed[name]) is owned[name]
            assert torch.equal(owned[name], expected), name


def allreduce_changes_what_a_gradient_needs(rank: int) -> None:
    """torch notices that the tensors were changed in place."""
    weight = torch.ones(3, requires_grad=True)
    kept = [(weight * factor).exp() for factor in (1.0, 2.0)]
    handles = [hvd.allreduce_async_(each, name=f"kept.{n}") for n, each in enumerate(kept)]
    for handle in handles:
        hvd.synchronize(handle)
    fails(lambda: sum(each.sum() for each in kept).backward(), "modified by an inplace operation")


def allreduce_scaled(rank: int) -> None:
    own = values(10, rank=rank)
    result = hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    assert torch.allclose(result, sum(of_all(10)) * 1.5)
    whole = values(10, type=torch.int32, rank=rank)
    scaled = sum((each.double() * 0.5).trunc() for each in of_all(10, type=torch.int32))
    assert torch.equal(hvd.allreduce(whole, op=hvd.Sum, prescale_factor=0.5).double(), scaled)


def allreduce_gradients(rank: int) -> None:
    for op, factor in ((hvd.Sum, SIZE), (hvd.Average, 1)):
        own = values(5, rank=rank).requires_grad_()
        hvd.allreduce(own, op=op).sum().backward()
        assert torch.equal(own.grad, torch.full((5,), float(factor)))


def allreduce_adasum(rank: int) -> None:
    a = torch.eye(SIZE, dtype=torch.float64)[rank]
    assert torch.equal(hvd.allreduce(a, op=hvd.Adasum), torch.ones(SIZE, dtype=torch.float64))
    same = torch.tensor([3.0, 4.0])
    assert torch.allclose(hvd.allreduce(same, op=hvd.Adasum), same)


def compression_of_gradients(rank: int) -> None:
    own = torch.full((4,), 1 / 3 + rank)
    result = hvd.allreduce(own, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    assert torch.equal(result, sum(torch.full((4,), 1 / 3 + r).half() for r in range(SIZE)).float())
    numbers = hvd.allreduce(torch.tensor([5]), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert numbers.tolist() == [20]


def grouped_allreduce(rank: int) -> None:
    shapes = ((3,), (2, 2), (7,))
    own = [values(*shape, rank=rank) for shape in shapes]
    expected = [sum(of_all(*shape)) for shape in shapes]
    results = hvd.grouped_allreduce(own, op=hvd.Sum)
    assert all(map(torch.equal, results, expected))
    averages = hvd.grouped_allreduce(own)
    assert all(
        torch.equal(mean, each / SIZE) for mean, each in zip(averages, expected, strict=True)
    )
    placed = hvd.grouped_allreduce_(own, op=hvd.Sum)
    assert all(one is other for one, other in zip(placed, own, strict=True))
    assert all(map(torch.equal, own, expected))
    trained = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    sum(each.sum() for each in hvd.grouped_allreduce(trained, op=hvd.Sum)).backward()
    assert [each.grad.tolist() for each in trained] == [[SIZE] * 2, [SIZE] * 3]


def allgather(rank: int) -> None:
    for type in (*TYPES, torch.bool):
        result = hvd.allgather(values(3, 2, type=type, rank=rank))
        assert torch.equal(result, torch.cat(of_all(3, 2, type=type)))
    rows = hvd.allgather(torch.full((rank, 2), rank))
    assert torch.equal(rows, torch.cat([torch.full((r, 2), r) for r in range(SIZE)]))
    handles = [hvd.allgather_async(torch.full((rank + 1,), n), name=f"many.{n}") for n in range(9)]
    assert [hvd.synchronize(each).tolist() for each in handles] == [[n] * 10 for n in range(9)]


def allgather_gradients(rank: int) -> None:
    own = torch.ones(rank + 1, 2, requires_grad=True)
    weights = torch.arange(10.0).unsqueeze(1)
    (hvd.allgather(own) * weights).sum().backward()
    first = sum(range(1, rank + 1))
    assert torch.equal(own.grad, weights[first : first + rank + 1].expand(-1, 2))


def grouped_allgather(rank: int) -> None:
    own = [torch.full((rank + 1,), 1.0, requires_grad=True), torch.full((2, 3), 2.0)]
    results = hvd.grouped_allgather(own)
    assert [tuple(each.shape) for each in results] == [(10,), (8, 3)]
    results[0].sum().backward()
    assert own[0].grad.tolist() == [1.0] * (rank + 1)


def broadcast(rank: int) -> None:
    for type in (*TYPES, torch.bool):
        for root in range(SIZE):
            own = values(4, 3, type=type, rank=rank)
            result = hvd.broadcast(own, root)
            assert torch.equal(result, values(4, 3, type=type, rank=root))
            assert torch.equal(own, values(4, 3, type=type, rank=rank))
            assert hvd.broadcast_(own, root) is own
            assert torch.equal(own, result)


def broadcast_gradients(rank: int) -> None:
    own = torch.ones(3, requires_grad=True)
    (hvd.broadcast(own, 2) * (rank + 1)).sum().backward()
    assert own.grad.tolist() == ([2.5] * 3 if rank == 2 else [0.0] * 3)


def alltoall(rank: int) -> None:
    for type in TYPES:
        splits = [1 + (rank + other) % 2 for other in range(SIZE)]
        own = torch.full((sum(splits), 2), rank, dtype=type)
        result, received = hvd.alltoall(own, splits=torch.tensor(splits))
        assert received.tolist() == splits
        expected = [torch.full((n, 2), r, dtype=type) for r, n in enumerate(splits)]
        assert torch.equal(result, torch.cat(expected))
    equal = hvd.alltoall(torch.arange(SIZE) + 10 * rank)
    assert equal.tolist() == [10 * other + rank for other in range(SIZE)]
    none, counts = hvd.alltoall(torch.empty(0, 3), splits=[0] * SIZE)
    assert none.shape == (0, 3) and counts.tolist() == [0] * SIZE


def alltoall_gradients(rank: int) -> None:
    own = torch.ones(SIZE, requires_grad=True)
    (hvd.alltoall(own) * (rank + 1)).sum().backward()
    assert own.grad.tolist() == [1.0, 2.0, 3.0, 4.0]
    split = torch.ones(SIZE, requires_grad=True)
    (hvd.alltoall(split, splits=[1] * SIZE)[0] * (rank + 1)).sum().backward()
    assert split.grad.tolist() == [1.0, 2.0, 3.0, 4.0]


def reducescatter(rank: int) -> None:
    for type in TYPES:
        for rows in (8, 6, 3):
            parts = sum(of_all(rows, 2, type=type)).tensor_split(SIZE)
            own = values(rows, 2, type=type, rank=rank)
            assert torch.equal(hvd.reducescatter(own, op=hvd.Sum), parts[rank])
    mean = hvd.reducescatter(values(8, rank=rank))
    assert torch.equal(mean, (sum(of_all(8)) / SIZE).chunk(SIZE)[rank])
    scaled = hvd.reducescatter(
        values(8, rank=rank), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25
    )
    assert torch.allclose(scaled, (sum(of_all(8)) / 2).chunk(SIZE)[rank])
    handles = [
        hvd.reducescatter_async(values(n, rank=rank), name=f"scatter.{n}", op=hvd.Sum)
        for n in range(4, 12)
    ]
    for n, handle in enumerate(handles, 4):
        assert torch.equal(hvd.synchronize(handle), sum(of_all(n)).tensor_split(SIZE)[rank])


def reducescatter_gradients(rank: int) -> None:
    for op, factor in ((hvd.Sum, SIZE), (hvd.Average, 1)):
        own = torch.ones(SIZE, 2, requires_grad=True)
        (hvd.reducescatter(own, op=op) * (rank + 1)).sum().backward()
        assert own.grad[:, 0].tolist() == [factor * (r + 1) for r in range(SIZE)]


def grouped_reducescatter(rank: int) -> None:
    own = [values(8, rank=rank), values(6, 2, rank=rank)]
    results = hvd.grouped_reducescatter(own, op=hvd.Sum)
    assert torch.equal(results[0], sum(of_all(8)).tensor_split(SIZE)[rank])
    assert torch.equal(results[1], sum(of_all(6, 2)).tensor_split(SIZE)[rank])
    trained = torch.ones(SIZE, requires_grad=True)
    hvd.grouped_reducescatter([trained], op=hvd.Sum)[0].sum().backward()
    assert trained.grad.tolist() == [SIZE] * SIZE


def process_sets(rank: int) -> None:
    even, odd = hvd.ProcessSet([2, 0]), hvd.ProcessSet([1, 3])
    assert hvd.add_process_set(even) is even and even.ranks == [0, 2]
    hvd.add_process_set(odd)
    own, other = (even, odd) if rank % 2 == 0 else (odd, even)
    assert own.included() and own.size() == 2 and own.rank() == rank // 2
    assert not other.included() and other.rank() == -1
    members = own.ranks or []
    tensor = torch.tensor([float(rank)])
    # One name in two sets is two names.
    assert hvd.allreduce(tensor, op=hvd.Sum, name="both", process_set=own).item() == sum(members)
    assert hvd.allgather(tensor, process_set=own).tolist() == [float(each) for each in members]
    assert hvd.broadcast(tensor, members[1], process_set=own).item() == members[1]
    assert hvd.alltoall(torch.arange(2), process_set=own).tolist() == [own.rank()] * 2
    assert hvd.reducescatter(torch.ones(2), op=hvd.Sum, process_set=own).tolist() == [2.0]
    assert hvd.broadcast_object(rank, members[0], process_set=own) == members[0]
    trained = torch.ones(2, requires_grad=True)
    hvd.allreduce(trained, op=hvd.Sum, process_set=own).sum().backward()
    assert trained.grad.tolist() == [2.0, 2.0]
    hvd.barrier(process_set=own)
    fails(lambda: hvd.allreduce(tensor, process_set=other), f"rank {rank} is not in")
    fails(
        lambda: hvd.broadcast(tensor, 1 - rank % 2, process_set=own), "root_rank", "is not a rank"
    )
    fails(lambda: hvd.add_process_set([0, 2]), "are a process set already")
    fails(lambda: hvd.add_process_set([0, SIZE]), "ranks from 0 to 3")
    fails(lambda: hvd.add_process_set([rank]), "rank 0 adds [0], rank 1 [1]")
    assert hvd.remove_process_set(even) and hvd.remove_process_set(odd)
    assert not hvd.remove_process_set(hvd.global_process_set)
    fails(lambda: hvd.allreduce(tensor, process_set=own), "not in use")


def process_set_of_a_late_rank(rank: int) -> None:
    worker = world("a test").worker
    if rank == 3:  # others could use the set before this rank knows it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "add_set", functools.partial(late, worker.add_set))
            pair = hvd.add_process_set([1, 2])
    else:
        pair = hvd.add_process_set([1, 2])
    if pair.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
    hvd.remove_process_set(pair)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE


def late(call: Callable[..., None], *arguments: Any) -> None:
    time.sleep(0.2)
    call(*arguments)


def random_orders_with_join(rank: int) -> None:
    order = list(range(1000))
    for step in range(2):  # the second time from the cache
        random.Random(rank + 10 * step).shuffle(order)
        handles = {
            n: hvd.allreduce_async(
                torch.full((n % 7 + 1,), float(n + rank)), name=f"any.{n}", op=hvd.Sum
            )
            for n in order
        }
        for n, handle in handles.items():
            assert torch.equal(handle.wait(), torch.full((n % 7 + 1,), 4.0 * n + 6))
    for first in range(SIZE):
        if rank != first:
            random.Random(rank).shuffle(order)
            handles = {
                n: hvd.allreduce_async(torch.full((n % 7 + 1,), float(n)), name=f"any.{n}")
                for n in order
            }
            for n, handle in handles.items():
                assert torch.equal(handle.wait(), torch.full((n % 7 + 1,), 0.75 * n))
        last = hvd.join()
        assert last != first
        assert hvd.allgather_object(last) == [last] * SIZE


def join_allows_sums_only(rank: int) -> None:
    if rank != 1:
        fails(
            lambda: hvd.allgather(torch.ones(2), name="left"),
            "ranks [1] have joined",
            "before hvd.join()",
        )
        fails(lambda: hvd.broadcast(torch.ones(2), 0, name="left"), "have joined")
        fails(lambda: hvd.allreduce(torch.ones(2), op=hvd.Max, name="left"), "have joined")
    assert hvd.join() != 1


def wrong_shapes(rank: int) -> None:
    bad = torch.ones(17, 17 + rank)
    for call in (
        lambda: hvd.allreduce(bad, name="bad"),
        lambda: hvd.broadcast(bad, 0, name="bad"),
        lambda: hvd.reducescatter(bad, name="bad"),
    ):
        fails(
            call, ".bad: rank 0 submits shape [17, 17], rank 1 [17, 18]", "one shape under one name"
        )
    for call in (
        lambda: hvd.allgather(bad, name="bad"),
        lambda: hvd.alltoall(torch.ones(4, 2 + rank), name="bad"),
    ):
        fails(call, ".bad: rank 0", "only the first dimension may differ")
    fails(lambda: hvd.allreduce(torch.ones([2] * (rank % 2 + 1)), name="bad"), "allreduce.bad: ")
    assert hvd.allreduce(torch.ones(1), name="bad").item() == 1  # the name is usable again


def wrong_types(rank: int) -> None:
    bad = torch.ones(4, dtype=torch.int32 if rank % 2 else torch.float32)
    for call in (
        lambda: hvd.allreduce(bad, name="typed"),
        lambda: hvd.allgather(bad, name="typed"),
        lambda: hvd.broadcast(bad, 0, name="typed"),
        lambda: hvd.alltoall(bad, name="typed"),
        lambda: hvd.reducescatter(bad, name="typed"),
    ):
        fails(call, "submits type torch.float32, rank 1 torch.int32: cast it to one type")


def wrong_roots_ops_and_groups(rank: int) -> None:
    one = torch.ones(4)
    fails(lambda: hvd.broadcast(one, rank, name="root"), "root rank 0, rank 1 1", "one root_rank")
    fails(lambda: hvd.broadcast(one, SIZE), "root_rank 4 is not a rank", "[0, 1, 2, 3]")
    ops = (hvd.Sum, hvd.Max)
    fails(lambda: hvd.allreduce(one, op=ops[rank % 2], name="op"), "submits op Sum, rank 1 Max")
    fails(lambda: hvd.allreduce(one, prescale_factor=1.0 + rank, name="f"), "prescale_factor")
    fails(
        lambda: hvd.grouped_allreduce([one] * (1 + rank), name="g"), "number of tensors 1, rank 1 2"
    )
    fails(lambda: hvd.grouped_allreduce([one, one.int()]), "more than one type")
    fails(lambda: hvd.grouped_allgather([]), "list of tensors is empty")
    fails(lambda: hvd.allreduce(one, average=True, op=hvd.Sum), "not both")


def wrong_arguments(rank: int) -> None:
    scalar = torch.tensor(1.0)
    fails(lambda: hvd.allgather(scalar), "tensor.reshape(1)")
    fails(lambda: hvd.reducescatter(scalar), "tensor.reshape(1)")
    fails(lambda: hvd.grouped_reducescatter([scalar]), "tensor.reshape(1)")
    fails(lambda: hvd.reducescatter(torch.ones(4), op=hvd.Adasum), "Adasum", "Average or Sum")
    fails(lambda: hvd.alltoall(torch.ones(5)), "5 rows do not divide among 4 ranks")
    fails(lambda: hvd.alltoall(torch.ones(4), splits=[1, 1, 1, 2]), "with the sum 4")
    fails(lambda: hvd.alltoall(torch.ones(4), splits=[4]), "4 numbers, one for each rank")
    fails(lambda: hvd.alltoall(torch.ones(4), splits=torch.ones(4)), "row of integers")
    fails(lambda: hvd.allreduce([1.0]), "takes a torch.Tensor, got list")
    fails(lambda: hvd.allreduce_async(torch.ones(2).to_sparse()), "sparse_allreduce_async")
    fails(lambda: hvd.synchronize(7), "7 is not a handle")
    fails(lambda: hvd.poll(None), "None is not a handle")


def duplicate_names(rank: int) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: hvd.allreduce_async(torch.ones(4), name="twice"),
        lambda: hvd.allgather_async(torch.ones(4), name="twice"),
        lambda: hvd.broadcast_async(torch.ones(4), 0, name="twice"),
        lambda: hvd.alltoall_async(torch.ones(4), name="twice"),
        lambda: hvd.reducescatter_async(torch.ones(4), name="twice"),
    ]
    for call in calls:
        if rank == 0:  # the others have not submitted it yet, so it is under way
            handle = call()
            fails(call, "twice: this name is under way")
            hvd.barrier()
        else:
            hvd.barrier()
            handle = call()
        handle.wait()


def parameters_are_broadcast(rank: int) -> None:
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    for mine, theirs in zip(
        model.parameters(), hvd.broadcast_object(list(model.parameters()), 1), strict=True
    ):
        assert torch.equal(mine, theirs)
    tensors = [torch.full((2,), float(rank)), torch.full((3,), float(rank))]
    hvd.broadcast_parameters(tensors, root_rank=3)
    assert [each[0].item() for each in tensors] == [3.0, 3.0]
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    fails(lambda: hvd.broadcast_parameters(7, 0), "model.state_dict()", "got int")


def optimizer_state_is_broadcast(rank: int) -> None:
    for kind, options in (
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {"betas": (0.8, 0.9)}),
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.RMSprop, {}),
        (torch.optim.Adagrad, {}),
    ):
        torch.manual_seed(rank)
        model = torch.nn.Linear(3, 2)
        optimizer = kind(model.parameters(), lr=0.1 * (rank + 1), **options)
        if rank == 0:  # only the root has made a step
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == 0.1
        states = hvd.allgather_object(optimizer.state_dict())
        for state in states:
            assert state["param_groups"] == states[0]["param_groups"]
            for number, values in states[0]["state"].items():
                for name, value in values.items():
                    found = state["state"][number][name]
                    assert torch.equal(torch.as_tensor(found), torch.as_tensor(value)), name
    lbfgs = torch.optim.LBFGS(model.parameters())
    fails(lambda: hvd.broadcast_optimizer_state(lbfgs, 0), "LBFGS")


def objects(rank: int) -> None:
    assert hvd.broadcast_object({"rank": rank}, root_rank=2) == {"rank": 2}
    assert hvd.allgather_object("x" * rank) == ["", "x", "xx", "xxx"]
    assert hvd.broadcast_object(None if rank else [1], name="named") == [1]


def trained(rank: int, **options: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The parameters of a model that four ranks train, and of one trained alone on all data."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    alone = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    alone.load_state_dict(model.state_dict())
    data = torch.randn(3, SIZE, 5, 4, dtype=torch.float64)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
        **options,
    )
    single = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    factor = SIZE if options.get("op") == hvd.Sum else 1
    for batch in data:
        optimizer.zero_grad()
        (model(batch[rank]) ** 2).mean().backward()
        optimizer.step()
        single.zero_grad()
        ((alone(batch.flatten(0, 1)) ** 2).mean() * factor).backward()
        single.step()
    return list(model.parameters()), list(alone.parameters())


def optimizer_equals_one_process(rank: int) -> None:
    for options in (
        {},
        {"op": hvd.Sum},
        {"gradient_predivide_factor": 2.0},
        {"groups": 2},
        {"groups": 1},
    ):
        found, expected = trained(rank, **options)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-12), options
    found, expected = trained(rank, compression=hvd.Compression.fp16)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-2)
        assert not torch.equal(one, other)


def optimizer_adds_backward_passes(rank: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), [("weight", weight)], backward_passes_per_step=2
    )
    for factor in (1.0, 2.0):
        (weight * factor * rank).sum().backward()
    optimizer.step()
    assert weight.tolist() == [-4.5, -4.5]  # 3 * the mean of the ranks
    optimizer.zero_grad()
    for _ in range(2):
        weight.sum().backward()
    fails(lambda: weight.sum().backward(), "weight: gradients were computed more than")
    optimizer.step()


def optimizer_reduces_what_a_rank_lacks(rank: int) -> None:
    used, unused = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([used, unused], lr=1.0), [("used", used), ("unused", unused)]
    )
    (used + (unused if rank == 0 else 0)).sum().backward()
    optimizer.step()
    assert (used.item(), unused.item()) == (-1.0, -0.25)


def optimizer_can_be_clipped(rank: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    (weight * (rank + 1)).sum().backward()
    fails(optimizer.zero_grad, "optimizer.synchronize() first")
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.allclose(weight, torch.full((4,), -0.5))
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()


def optimizer_of_sparse_gradients(rank: int) -> None:
    for as_dense in (False, True):
        table = torch.nn.Embedding(5, 2, sparse=True)
        torch.nn.init.zeros_(table.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0),
            table.named_parameters(),
            sparse_as_dense=as_dense,
        )
        table(torch.tensor([rank, 4])).sum().backward()
        optimizer.step()
        assert table.weight[:, 0].tolist() == [-0.25] * 4 + [-1.0]
    entries = torch.sparse_coo_tensor([[rank]], [1.0], (SIZE,))
    total = hvd.synchronize(hvd.sparse_allreduce_async(entries, name="entries", op=hvd.Sum))
    assert total.to_dense().tolist() == [1.0] * SIZE


def optimizer_of_a_process_set(rank: int) -> None:
    pair = hvd.add_process_set([1, 2])
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), [("weight", weight)], process_set=pair
    )
    (weight * rank).sum().backward()
    optimizer.step()
    assert weight.item() == (-1.5 if pair.included() else -float(rank))
    hvd.remove_process_set(pair)


def optimizer_with_adasum(rank: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=1.0), [("weight", weight)], op=hvd.Adasum
    )
    weight[rank].backward()
    optimizer.step()
    assert torch.allclose(weight, torch.full((SIZE,), -1.0, dtype=torch.float64))
    with pytest.raises(AssertionError, match="no meaning"), optimizer.skip_synchronize():
        pass


def optimizer_checks_its_arguments(rank: int) -> None:
    one, two = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    plain = torch.optim.SGD([one, two], lr=1.0)
    wrap = hvd.DistributedOptimizer
    fails(lambda: wrap(plain, [("a", one)]), "lacks 1 parameters")
    fails(lambda: wrap(plain, [("a", one), ("a", two)]), "these names twice: a")
    fails(lambda: wrap(plain, [one, two]), "pairs of a name and a parameter")
    both = [("a", one), ("b", two)]
    fails(lambda: wrap(plain, both, groups=-1), "groups is -1")
    fails(lambda: wrap(plain, both, groups=[[one], [one]]), "a parameter twice")
    fails(
        lambda: wrap(plain, both, op=hvd.Sum, gradient_predivide_factor=2.0), "op=hvd.Average only"
    )
    unnamed = wrap(plain)
    assert isinstance(unnamed, torch.optim.SGD) and unnamed.param_groups is plain.param_groups
    (one * rank + two).sum().backward()
    unnamed.step()
    assert (one.item(), two.item()) == (-1.5, -1.0)


def sync_batch_norm(rank: int) -> None:
    torch.manual_seed(0)
    for shape in ((6, 3), (5, 3, 4), (2, 3, 4, 4)):
        data = torch.randn(SIZE, *shape, dtype=torch.float64)
        ours = hvd.SyncBatchNorm(3).double()
        kind = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}[
            len(shape)
        ]
        alone = kind(3).double()
        own = data[rank].clone().requires_grad_()
        every = data.flatten(0, 1).clone().requires_grad_()
        result, expected = ours(own), alone(every)
        rows = slice(rank * shape[0], (rank + 1) * shape[0])
        assert torch.allclose(result, expected[rows])
        (result**3).sum().backward()
        (expected**3).sum().backward()
        assert torch.allclose(own.grad, every.grad[rows])
        assert torch.allclose(ours.running_mean, alone.running_mean)
        assert torch.allclose(ours.running_var, alone.running_var)
        ours.eval()
        alone.eval()
        assert torch.allclose(ours(data[rank]), alone(data[rank]))


def barriers(rank: int) -> None:
    for _ in range(3):
        handle = hvd.allreduce_async(torch.ones(2), name="beside", op=hvd.Sum)
        hvd.barrier()
        assert handle.wait().tolist() == [4.0, 4.0]


def begins_again_after_shutdown(rank: int) -> None:
    hvd.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
    for call in (
        lambda: hvd.rank(),
        lambda: hvd.allreduce(torch.ones(1)),
        lambda: hvd.broadcast(torch.ones(1), 0),
        lambda: hvd.barrier(),
        lambda: hvd.join(),
        lambda: hvd.add_process_set([0]),
    ):
        fails(call, "Horovod has not been initialized", "hvd.init()")
    hvd.init(process_sets=[hvd.ProcessSet([0, 1])])
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == SIZE


CHECKS = [
    ranks_and_sizes, built, allreduce_of_every_type, allreduce_average, allreduce_other_ops,
    allreduce_in_place, allreduce_fused, allreduce_fused_of_every_layout,
    allreduce_changes_what_a_gradient_needs, allreduce_scaled, allreduce_gradients,
    allreduce_adasum, compression_of_gradients, grouped_allreduce, allgather, allgather_gradients,
    grouped_allgather, broadcast, broadcast_gradients, alltoall, alltoall_gradients, reducescatter,
    reducescatter_gradients, grouped_reducescatter, process_sets, process_set_of_a_late_rank,
    random_orders_with_join, join_allows_sums_only, wrong_shapes, wrong_types,
    wrong_roots_ops_and_groups, wrong_arguments, duplicate_names, parameters_are_broadcast,
    optimizer_state_is_broadcast, objects, optimizer_equals_one_process,
    optimizer_adds_backward_passes, optimizer_reduces_what_a_rank_lacks, optimizer_can_be_clipped,
    optimizer_of_sparse_gradients, optimizer_of_a_process_set, optimizer_with_adasum,
    optimizer_checks_its_arguments, sync_batch_norm, barriers, begins_again_after_shutdown,
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_four_ranks(ranks: Crew, check: Callable[[int], None]) -> None:
    ranks.run(functools.partial(initialized, check))
