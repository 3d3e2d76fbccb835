"""FSDP2, HSDP, DTensor and distributed checkpoints compute what one process computes alone."""

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import Crew
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

SIZE = 4
RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-5}


def expect_close(actual: Tensor, expected: Tensor) -> None:
    relative = RELATIVE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=relative, atol=relative)


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def model(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(7)
    # Widths that do not divide among the ranks: shards are padded.
    layers = [nn.Linear(10, 17), nn.Tanh(), nn.Linear(17, 13), nn.Tanh(), nn.Linear(13, 3)]
    return nn.Sequential(*layers).to(dtype)


def optimizer_of(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)


def batch(rank: int, step: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(6, 10, generator=generator, dtype=torch.float64).to(dtype)


def train(
    module: nn.Module, optimizer: torch.optim.Optimizer, ranks: Sequence[int], steps: Sequence[int]
) -> None:
    """Steps with the mean gradient over the batches of these ranks (and over all that share)."""
    dtype = next(module.parameters()).dtype
    for step in steps:
        losses = [module(batch(rank, step, dtype)).square().mean() for rank in ranks]
        torch.stack(losses).mean().backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()


def trained_alone(dtype: torch.dtype, steps: Sequence[int]) -> nn.Module:
    module = model(dtype)
    train(module, optimizer_of(module), range(SIZE), steps)
    return module


def expect_same_parameters(module: nn.Module, expected: nn.Module) -> None:
    for ours, alone in zip(module.parameters(), expected.parameters(), strict=True):
        expect_close(whole(ours.detach()), alone.detach())


def mesh_of(*shape: int) -> DeviceMesh:
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])


def shard(module: nn.Sequential, mesh: DeviceMesh, memory_from_group: bool = False) -> None:
    for unit in [*(layer for layer in module if isinstance(layer, nn.Linear)), module]:
        fully_shard(unit, mesh=mesh)
        unit.set_allocate_memory_from_process_group_for_comm(memory_from_group)


def train_with_fsdp(rank: int, dtype: torch.dtype, *shape: int) -> None:
    module = model(dtype)
    shard(module, mesh_of(*shape))
    train(module, optimizer_of(module), [rank], range(3))
    expect_same_parameters(module, trained_alone(dtype, range(3)))


def addresses_of_the_heap() -> list[range]:
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    bounds = [line[0].split("-") for line in lines if "memfd:lockstep" in line[-2]]
    return [range(int(first, 16), int(end, 16)) for first, end in bounds]


def train_in_memory_of_the_group(rank: int) -> None:
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import ProcessGroupAllocMixin

    lent: list[int] = []
    allocate = ProcessGroupAllocMixin.allocate

    def watched(self: ProcessGroupAllocMixin, *arguments: object, **named: object) -> Tensor:
        tensor = allocate(self, *arguments, **named)
        lent.append(tensor.data_ptr())
        return tensor

    module = model(torch.float64)
    shard(module, mesh_of(SIZE), memory_from_group=True)
    ProcessGroupAllocMixin.allocate = watched
    try:
        train(module, optimizer_of(module), [rank], range(3))
    finally:
        ProcessGroupAllocMixin.allocate = allocate
    expect_same_parameters(module, trained_alone(torch.float64, range(3)))
    heap = addresses_of_the_heap()
    assert lent
    assert all(any(address in part for part in heap) for address in lent)


def every_placement_becomes_every_other(rank: int) -> None:
    mesh = mesh_of(SIZE)
    everything = torch.arange(7 * 10, dtype=torch.float64).reshape(7, 10)  # uneven shards
    placements: list[Placement] = [Replicate(), Shard(0), Shard(1)]
    for source, target in itertools.product(placements, placements):
        moved = distribute_tensor(everything, mesh, [source]).redistribute(mesh, [target])
        expect_close(moved.full_tensor(), everything)
        expected = distribute_tensor(everything, mesh, [target]).to_local()
        expect_close(moved.to_local(), expected)
    for operation, answer in [("sum", SIZE), ("avg", 1), ("max", 1), ("min", 1)]:
        for target in placements:
            partial = DTensor.from_local(everything, mesh, [Partial(operation)])
            expect_close(partial.redistribute(mesh, [target]).full_tensor(), everything * answer)


def placements_of_two_dimensions(rank: int) -> None:
    mesh = mesh_of(2, 2)
    everything = torch.arange(6 * 8, dtype=torch.float64).reshape(6, 8)
    placements: list[Placement] = [Replicate(), Shard(0), Shard(1)]
    pairs = list(itertools.product(placements, placements))
    for source, target in itertools.product(pairs, pairs):
        moved = distribute_tensor(everything, mesh, source).redistribute(mesh, target)
        expect_close(moved.full_tensor(), everything)


def products_of_sharded_matrices(rank: int) -> None:
    mesh = mesh_of(SIZE)
    torch.manual_seed(3)
    left = torch.randn(8, 12, dtype=torch.float64)
    right = torch.randn(12, 4, dtype=torch.float64)
    for one, other in itertools.product([Replicate(), Shard(0), Shard(1)], repeat=2):
        product = distribute_tensor(left, mesh, [one]) @ distribute_tensor(right, mesh, [other])
        expect_close(product.full_tensor(), left @ right)


@contextlib.contextmanager
def shared_folder(rank: int) -> Iterator[str]:
    """A folder that all ranks see while they are in it."""
    with tempfile.TemporaryDirectory() as folder:
        names = [folder if rank == 0 else None]
        dist.broadcast_object_list(names, src=0)
        assert names[0] is not None
        yield names[0]
        dist.barrier()


def a_checkpoint_moves_to_another_layout(rank: int) -> None:
    def save(module: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> None:
        dcp.save(state_of(module, optimizer), checkpoint_id=folder)

    save_and_go_on_elsewhere(rank, save)


def a_checkpoint_is_saved_in_the_background(rank: int) -> None:
    def save(module: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> None:
        # Its thread communicates with the other ranks' over a group that has no other use
        # meanwhile.
        saved = dcp.async_save(
            state_of(module, optimizer), checkpoint_id=folder, process_group=dist.new_group()
        )
        # The save does not contain later changes.
        train(module, optimizer, [rank], range(5, 6))
        saved.result()

    save_and_go_on_elsewhere(rank, save)


def state_of(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    return {
        "model": get_model_state_dict(module),
        "optimizer": get_optimizer_state_dict(module, optimizer),
    }


def save_and_go_on_elsewhere(
    rank: int, save: Callable[[nn.Module, torch.optim.Optimizer, str], None]
) -> None:
    first, then = model(torch.float64), model(torch.float64)
    shard(first, mesh_of(SIZE))
    shard(then, mesh_of(2, 2))
    optimizer = optimizer_of(first)
    train(first, optimizer, [rank], range(2))
    with shared_folder(rank) as folder:
        save(first, optimizer, folder)
        optimizer = optimizer_of(then)
        state = state_of(then, optimizer)
        dcp.load(state, checkpoint_id=folder)
        set_model_state_dict(then, state["model"])
        set_optimizer_state_dict(then, optimizer, state["optimizer"])
    train(then, optimizer, [rank], range(2, 4))
    expect_same_parameters(then, trained_alone(torch.float64, range(4)))


def fsdp_in_64_bits(rank: int) -> None:
    train_with_fsdp(rank, torch.float64, SIZE)


def fsdp_in_32_bits(rank: int) -> None:
    train_with_fsdp(rank, torch.float32, SIZE)


def hybrid_shards_in_64_bits(rank: int) -> None:
    train_with_fsdp(rank, torch.float64, 2, 2)


@pytest.mark.parametrize(
    "body",
    [
        fsdp_in_64_bits,
        fsdp_in_32_bits,
        hybrid_shards_in_64_bits,
        every_placement_becomes_every_other,
        placements_of_two_dimensions,
        products_of_sharded_matrices,
        a_checkpoint_moves_to_another_layout,
        a_checkpoint_is_saved_in_the_background,
    ],
)
def test_it_equals_one_process(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)


def test_fsdp_communicates_in_memory_of_the_group(crew: Crew, backend: str) -> None:
    if backend != "lockstep":
        pytest.skip("other backends lend no memory")
    crew.run(train_in_memory_of_the_group)
