"""Ordinary tensors in shared memory: what a program may do with them, and with its forks."""

import os
import threading
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

MIB = 1 << 20


@pytest.fixture(autouse=True)
def zero_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_ZERO_COPY", "1")


def is_shared(tensor: torch.Tensor) -> bool:
    """True if the memory at its address is that of this process's shared heap."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return "lockstep-heap" in line and line.split()[1] == "rw-s"
    return False


def moved(value: float, size: int = MIB) -> torch.Tensor:
    """A tensor of float32 in shared memory, filled with the value."""
    tensor = torch.zeros(size // 4)
    for _ in range(2):
        dist.all_reduce(tensor)
    assert is_shared(tensor)
    return tensor.fill_(value)


def _collectives(rank: int) -> None:
    size = dist.get_world_size()
    numbers = torch.arange(MIB, dtype=torch.float64)
    for _ in range(2):
        summed = numbers.clone()
        gathered, scattered = torch.zeros(size * MIB), torch.zeros(MIB // size)
        sent = torch.full((MIB,), float(rank))
        for _ in range(3):
            summed.copy_(numbers)
            dist.all_reduce(summed)
            assert torch.equal(summed, size * numbers)
            dist.all_gather_into_tensor(gathered, sent)
            assert gathered.view(size, -1).mean(1).tolist() == list(range(size))
            dist.reduce_scatter_tensor(scattered, gathered[:MIB])
            assert scattered.unique().item() == 0
            dist.broadcast(summed, size - 1)
            assert torch.equal(summed, size * numbers)
            dist.all_to_all_single(gathered, torch.full((size * MIB,), float(rank)))
            assert gathered.view(size, -1).mean(1).tolist() == list(range(size))
        assert is_shared(summed) and is_shared(gathered)


@pytest.mark.parametrize("hosts", [1, 2])
def test_collectives_have_the_same_results_when_tensors_have_moved(hosts: int) -> None:
    run_ranks(4, _collectives, hosts=hosts)


def _new_each_step(rank: int) -> None:
    for step in range(4):
        gradient = torch.full((MIB,), 1.0 + step)
        dist.all_reduce(gradient)
        assert gradient.unique().item() == 2 * (1 + step)
        assert is_shared(gradient) == (step > 0)
        del gradient


def test_a_new_tensor_takes_the_moved_memory_of_one_that_was_freed() -> None:
    run_ranks(2, _new_each_step)


def _same_memory(rank: int) -> None:
    resized = moved(2)
    resized.untyped_storage().resize_(2 * MIB)  # new memory
    assert not is_shared(resized) and resized.unique().item() == 2
    dist.all_reduce(resized)
    assert resized.unique().item() == 4
    tensor = moved(1)
    array: Any = tensor.numpy()
    view = tensor[1000:]
    dist.all_reduce(view)
    assert numpy.all(array[1000:] == 2) and numpy.all(array[:1000] == 1)
    other = dist.new_group([1, 0])
    dist.all_reduce(tensor, group=other)
    assert tensor[0] == 2 and view[0] == 4


def test_views_arrays_and_groups_see_one_memory() -> None:
    run_ranks(2, _same_memory)


def _ordinary_uses(rank: int) -> None:
    small, half = torch.zeros(1000), torch.zeros(MIB)[: MIB // 2 + 1]
    for _ in range(3):
        dist.all_reduce(small)
        dist.all_reduce(half)
    assert not is_shared(small) and not is_shared(half)
    tensor = moved(3)
    tensor.share_memory_()
    assert tensor.is_shared() and not is_shared(tensor) and tensor.sum() == 3 * tensor.numel()
    dist.all_reduce(tensor)
    assert tensor[0] == 6
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"(?i)accelerator|cuda"):
            moved(1).pin_memory()
    copied = moved(5).clone()
    assert copied.sum() == 5 * copied.numel()


def test_small_and_shared_tensors_stay_what_they_are() -> None:
    run_ranks(2, _ordinary_uses)


def _profiled(rank: int) -> list[int]:
    tensor = torch.zeros(4)
    dist.all_reduce(tensor)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        tensor = torch.empty(3 * MIB + 5, dtype=torch.uint8)
        for _ in range(3):
            dist.all_reduce(tensor)
        del tensor
    return [
        each.self_cpu_memory_usage for each in profiler.events() or [] if each.self_cpu_memory_usage
    ]


def test_the_profiler_counts_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    on = run_ranks(2, _profiled)
    monkeypatch.setenv("LOCKSTEP_ZERO_COPY", "0")
    assert run_ranks(2, _profiled) == on
    assert sum(abs(each) for each in on[0]) >= 2 * (3 * MIB + 5)


def _stays(rank: int) -> None:
    tensor = torch.ones(MIB)
    for _ in range(3):
        dist.all_reduce(tensor)
    assert not is_shared(tensor) and tensor[0] == 8


def test_nothing_moves_when_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_ZERO_COPY", "0")
    run_ranks(2, _stays)
    monkeypatch.delenv("LOCKSTEP_ZERO_COPY")
    run_ranks(2, _stays)


def test_a_rank_without_others_on_its_host_moves_nothing() -> None:
    run_ranks(2, _stays, hosts=2)


class _Rows(Dataset[tuple[float, float]]):
    """Each item is the least and the largest number of a part, which is then overwritten."""

    def __init__(self, data: torch.Tensor | None) -> None:
        self.data = data

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[float, float]:
        assert self.data is not None
        part = self.data.view(len(self), -1)[index]
        seen = part.min().item(), part.max().item()
        part.fill_(-1.0)
        return seen


def _workers(rank: int) -> None:
    for epoch in [1.0, 2.0]:
        rows = _Rows(moved(epoch, 64 * MIB))
        loader = DataLoader(rows, num_workers=4, batch_size=2, multiprocessing_context="fork")
        batches = iter(loader)
        # The parent communicates, writes, frees and reuses the memory while the workers read it.
        assert rows.data is not None
        dist.all_reduce(rows.data.fill_(7.0))
        assert is_shared(rows.data) and rows.data.max() == 14 and rows.data.min() == 14
        rows.data = None
        other = moved(9.0, 64 * MIB)
        for smallest, largest in batches:
            assert (smallest == epoch).all() and (largest == epoch).all()
        assert other.max() == 9 and other.min() == 9


def test_forked_workers_and_their_parent_do_not_see_each_others_writes() -> None:
    run_ranks(2, _workers)


def _fork_during(rank: int) -> None:
    tensor = moved(1.0, 16 * MIB)
    work = dist.all_reduce(tensor, async_op=True) if rank == 0 else None
    child = os.fork()
    if child == 0:
        unchanged = tensor.unique().item() == 1
        tensor.fill_(3.0)
        os._exit(0 if unchanged else 1)
    if rank == 0:
        assert os.waitpid(child, 0)[1] == 0  # the others begin after that
    if rank != 0:
        os.waitpid(child, 0)
        work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    work.wait()
    assert tensor.unique().item() == 2


def test_a_fork_during_a_collective_copies_its_tensor() -> None:
    run_ranks(2, _fork_during)


def _train(rank: int, zero_copy: bool) -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.ReLU(), torch.nn.Linear(600, 1))
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=rank % 2 == 0)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    losses = []
    for step in range(6):
        inputs = torch.full((4, 600), 0.01 * (step + rank))
        loss = parallel(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    shared = any(is_shared(each.grad) for each in parallel.parameters() if each.grad is not None)
    assert shared == (zero_copy and rank % 2 == 0)
    return losses


def test_ddp_trains_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    on = run_ranks(2, _train, True)
    monkeypatch.setenv("LOCKSTEP_ZERO_COPY", "0")
    assert run_ranks(2, _train, False) == on


def _threads(rank: int) -> None:
    groups = [dist.new_group() for _ in range(3)]
    errors: list[BaseException] = []

    def communicate(group: Any) -> None:
        try:
            for _ in range(10):
                tensor = torch.ones(MIB)
                for _ in range(3):
                    dist.all_reduce(tensor.fill_(1), group=group)
                assert tensor.unique().item() == 2
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=communicate, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_threads_move_and_free_tensors_at_the_same_time() -> None:
    run_ranks(2, _threads)
