"""DDP's extras, ZeRO and divided tensors compute what one process computes alone."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

SIZE = 4


def expect_close(actual: Tensor, expected: Tensor, relative: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=relative, atol=relative)


def model() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).double()


def batch(rank: int, step: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(6, 8, generator=generator, dtype=torch.float64)


def loss_of(module: nn.Module, rank: int, step: int) -> Tensor:
    return module(batch(rank, step)).square().mean()


def trained_alone(steps: int, optimizer: type[torch.optim.Optimizer], rate: float) -> nn.Module:
    module = model()
    stepper = optimizer(module.parameters(), lr=rate)
    for step in range(steps):
        stepper.zero_grad()
        torch.stack([loss_of(module, rank, step) for rank in range(SIZE)]).mean().backward()
        stepper.step()
    return module


def expect_same_parameters(module: nn.Module, expected: nn.Module, relative: float) -> None:
    for ours, alone in zip(module.parameters(), expected.parameters(), strict=True):
        expect_close(ours.detach(), alone.detach(), relative)


def train(module: nn.Module, optimizer: torch.optim.Optimizer, rank: int, steps: int = 3) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(module, rank, step).backward()
        optimizer.step()


def ddp_with_a_compressing_hook(rank: int) -> None:
    for hook, relative in [
        (default_hooks.allreduce_hook, 1e-10),
        (default_hooks.fp16_compress_hook, 1e-2),
    ]:
        module = DistributedDataParallel(model(), gradient_as_bucket_view=True)
        module.register_comm_hook(None, hook)
        train(module, torch.optim.SGD(module.parameters(), lr=0.1), rank)
        expect_same_parameters(module, trained_alone(3, torch.optim.SGD, 0.1), relative)


def ddp_with_a_static_graph_and_unused_parameters(rank: int) -> None:
    for options in ({"static_graph": True}, {"find_unused_parameters": True}):
        module = DistributedDataParallel(model(), **options)
        train(module, torch.optim.SGD(module.parameters(), lr=0.1), rank)
        expect_same_parameters(module, trained_alone(3, torch.optim.SGD, 0.1), 1e-10)


def ddp_with_fewer_batches_on_some_ranks(rank: int) -> None:
    module = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with Join([module]):
        train(module, optimizer, rank, steps=2 + rank % 2)
    weights = [torch.empty_like(module.module[0].weight.data) for _ in range(SIZE)]
    dist.all_gather(weights, module.module[0].weight.data)
    for weight in weights:
        expect_close(weight, weights[0])


def states_of_the_optimizer_are_divided(rank: int) -> None:
    module = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.Adam, lr=0.01)
    train(module, optimizer, rank)
    expect_same_parameters(module, trained_alone(3, torch.optim.Adam, 0.01), 1e-8)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 4


def tensors_are_divided_by_columns_and_rows(rank: int) -> None:
    mesh = init_device_mesh("cpu", (SIZE,))
    module = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    alone = model()
    ours, expected = module(batch(0, 0)), alone(batch(0, 0))
    expect_close(ours, expected)
    ours.square().mean().backward()
    expected.square().mean().backward()
    for divided, whole in zip(module.parameters(), alone.parameters(), strict=True):
        expect_close(divided.grad.full_tensor(), whole.grad)


def sequences_are_divided(rank: int) -> None:
    mesh = init_device_mesh("cpu", (SIZE,))
    norm = nn.LayerNorm(8).double()
    rows = batch(0, 0).repeat(2, 1).reshape(1, 12, 8)
    divided = parallelize_module(nn.LayerNorm(8).double(), mesh, SequenceParallel())
    found = divided(rows[:, 3 * rank : 3 * rank + 3])
    expect_close(found.full_tensor(), norm(rows))


@pytest.mark.parametrize(
    "body",
    [
        ddp_with_a_compressing_hook,
        ddp_with_a_static_graph_and_unused_parameters,
        ddp_with_fewer_batches_on_some_ranks,
        states_of_the_optimizer_are_divided,
        tensors_are_divided_by_columns_and_rows,
        sequences_are_divided,
    ],
)
def test_it_equals_one_process(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)
