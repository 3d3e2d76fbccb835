"""Optimizer state in main memory, for a model on a device. Ranks are forked: this process itself
uses no device."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import simulated_device
import torch
from models import Net, batch, net, train_alone
from ranks import run_ranks
from torch import Tensor, nn

import lockstep

RANKS = 2
STEPS = range(3)
CPU = torch.device("cpu")
MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def adafactor(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adafactor(parameters, lr=0.05)


def train(model: Net, optimizer: torch.optim.Optimizer, rank: int, steps: range = STEPS) -> None:
    for step in steps:
        x, y = (each.to("simulated") for each in batch(step, 0, rank, RANKS))
        nn.functional.mse_loss(model(x), y).backward()
        lockstep.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()


def expect_alone(model: Net, make: MakeOptimizer, steps: range, what: str) -> None:
    alone = net("cpu")
    train_alone(alone, make(alone.parameters()), steps, clip=0.1)
    for name, tensor in lockstep.state_dict(model).items():
        torch.testing.assert_close(
            tensor,
            alone.state_dict()[name],
            rtol=1e-10,
            atol=1e-10,
            msg=lambda text, n=name: f"{what} {n}: {text}",
        )


def train_with_offload(rank: int, make: MakeOptimizer) -> None:
    torch.simulated.set_device(rank)
    for policy in ("ddp", "zero1", "zero3+recompute"):
        model = lockstep.shard(net("simulated"), f"{policy}+offload")
        optimizer = make(model.parameters())
        train(model, optimizer, rank)
        held = [each for state in optimizer.state.values() for each in state.values()]
        assert held and all(each.device == CPU for each in held), policy
        devices = {each.device for each in model.parameters()}
        assert devices == {torch.device("simulated", rank)}, policy
        expect_alone(model, make, STEPS, policy)


@pytest.mark.parametrize("make", [adamw, adafactor])
def test_an_offloaded_optimizer_steps_as_one_process_does(make: MakeOptimizer) -> None:
    run_ranks(RANKS, train_with_offload, make, backend=simulated_device.BACKEND)


def memory_of(rank: int, policy: str) -> int:
    """Bytes of the device that a training holds between steps, for parameters of 32 bits."""
    torch.simulated.set_device(rank)
    before = simulated_device.bytes_in_use(rank)
    model = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(4))).to("simulated")
    lockstep.shard(model, policy)
    optimizer = adamw(model.parameters())
    model(torch.ones(1, 256, device="simulated")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.simulated.synchronize(rank)
    return simulated_device.bytes_in_use(rank) - before


def test_the_device_has_neither_masters_nor_optimizer_state() -> None:
    with_state = run_ranks(RANKS, memory_of, "zero1", backend=simulated_device.BACKEND)
    without = run_ranks(RANKS, memory_of, "zero1+offload", backend=simulated_device.BACKEND)
    moments = 2 * 4 * 4 * 256 * 256 // RANKS
    assert min(with_state) - max(without) >= moments


def resume(rank: int, folder: Path, policy: str) -> None:
    torch.simulated.set_device(rank)
    model = lockstep.shard(net("simulated"), policy)
    optimizer = adamw(model.parameters())
    checkpoints = lockstep.Checkpoints(folder, model, optimizer)
    begin = checkpoints.resume()
    train(model, optimizer, rank, range(begin, begin + 2))
    checkpoints.save(begin + 2)
    checkpoints.finish()
    expect_alone(model, adamw, range(begin + 2), policy)


def test_checkpoints_do_not_depend_on_it(tmp_path: Path) -> None:
    for policy in ("zero3+offload", "zero1", "zero1+offload"):
        run_ranks(RANKS, resume, tmp_path, policy, backend=simulated_device.BACKEND)


def load_by_name(rank: int) -> None:
    """State by the names of parameters, from one training into another."""
    simulated_device.serve_lockstep()
    torch.simulated.set_device(rank)
    first = lockstep.shard(net("simulated"), "zero1")
    optimizer = adamw(first.parameters())
    train(first, optimizer, rank, range(2))
    state = lockstep.optimizer_state_dict(first, optimizer, form="dtensor")
    model = lockstep.shard(net("simulated"), "zero3+offload")
    lockstep.load_state_dict(model, lockstep.state_dict(first, form="dtensor"))
    resumed = adamw(model.parameters())
    lockstep.load_optimizer_state_dict(model, resumed, state)
    train(model, resumed, rank, range(2, 4))
    expect_alone(model, adamw, range(4), "loaded")


def test_state_by_name_is_loaded_into_main_memory() -> None:
    run_ranks(RANKS, load_by_name, backend="cpu:lockstep,simulated:lockstep")
