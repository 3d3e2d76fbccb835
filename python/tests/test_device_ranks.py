"""Ranks that train on devices, over groups that behave as NCCL's do.

They are forked: this process itself uses no device.
"""

import os
from pathlib import Path

import pytest
import simulated_device
import torch
import torch.distributed as dist
from models import batch, net
from ranks import run_ranks
from torch import nn

import lockstep

BACKENDS = [simulated_device.BACKEND, f"cpu:gloo,simulated:{simulated_device.BACKEND}"]


def reduce(rank: int) -> float:
    torch.simulated.set_device(rank)
    ones = torch.full((3,), float(rank + 1), device="simulated")
    dist.all_reduce(ones)
    return float(ones.sum())


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_reduce_over_the_backend_for_it(backend: str) -> None:
    assert run_ranks(2, reduce, backend=backend) == [9, 9]


def reduce_over_lockstep(rank: int) -> tuple[float, list[float]]:
    """Tensors on the CPU and on the device, in one group and in a part of it."""
    simulated_device.serve_lockstep()
    torch.simulated.set_device(rank)
    on_cpu = torch.full((3,), float(rank + 1))
    dist.all_reduce(on_cpu)
    on_device = torch.full((2,), float(rank + 1), device="simulated")
    dist.all_reduce(on_device)
    whole = torch.zeros(4, device="simulated")
    handle = dist.all_gather_into_tensor(whole, on_device + rank, async_op=True)
    assert handle is not None
    handle.wait()
    pair = dist.new_group([0, 1], backend="cpu:lockstep,simulated:lockstep")
    dist.broadcast(whole, 1, group=pair)
    return float(on_cpu.sum()), whole.cpu().tolist()


def test_groups_of_lockstep_pass_tensors_of_a_device_to_its_backend() -> None:
    told = run_ranks(2, reduce_over_lockstep, backend="cpu:lockstep,simulated:lockstep")
    assert told == [(9.0, [3.0, 3.0, 4.0, 4.0])] * 2


def without_its_backend(_: int) -> str:
    with pytest.raises(TypeError) as refused:
        dist.all_reduce(torch.zeros(3, device="simulated"))
    return str(refused.value)


def test_a_device_without_a_backend_is_refused_with_words() -> None:
    for words in run_ranks(2, without_its_backend, backend="cpu:lockstep,simulated:lockstep"):
        assert "simulated" in words


class Training:
    """A run as in a user's script, with its checkpoints in a folder."""

    def __init__(self, rank: int, folder: Path) -> None:
        torch.simulated.set_device(rank)
        self.rank = rank
        self.model = lockstep.shard(net("simulated"), "zero1")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.checkpoints = lockstep.Checkpoints(folder, self.model, self.optimizer)
        self.done = self.checkpoints.resume()

    def run_to(self, step: int) -> None:
        for number in range(self.done, step):
            self.backward(number)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.done = step

    def backward(self, number: int) -> None:
        x, y = (each.to("simulated") for each in batch(number, 0, self.rank, 2))
        nn.functional.mse_loss(self.model(x), y).backward()

    def save(self) -> None:
        self.checkpoints.save(self.done)
        self.checkpoints.finish()


def save_and_resume(rank: int, folder: Path) -> tuple[list[str], int]:
    """The devices of the group for saves, and the number of new backends of the device."""
    before = simulated_device.living_backends()
    unbroken = Training(rank, folder)
    backends = simulated_device.living_backends() - before
    unbroken.run_to(2)
    unbroken.save()
    unbroken.run_to(3)
    resumed = Training(rank, folder)
    assert resumed.done == 2
    resumed.run_to(3)
    expected = lockstep.state_dict(unbroken.model)
    for name, tensor in lockstep.state_dict(resumed.model).items():
        assert torch.equal(tensor, expected[name]), name
    group = unbroken.checkpoints._group
    assert group is not None
    return [each.type for each in group._device_types], backends


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_of_a_device_use_a_group_for_the_cpu(backend: str, tmp_path: Path) -> None:
    assert run_ranks(2, save_and_resume, tmp_path, backend=backend) == [(["cpu"], 0)] * 2


def save_without_a_secret(rank: int, folder: Path) -> tuple[list[str], int]:
    os.environ["LOCKSTEP_SECRET_FILE"] = "/nonexistent"
    return save_and_resume(rank, folder)


def test_without_a_group_for_the_cpu_checkpoints_use_that_of_the_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    values = run_ranks(2, save_without_a_secret, tmp_path, backend=simulated_device.BACKEND)
    assert values == [(["simulated"], 1)] * 2
    warned = capfd.readouterr().err
    assert "checkpoints use the device's process group: reading LOCKSTEP_SECRET_FILE" in warned


def scale_gradients(rank: int, folder: Path) -> None:
    training = Training(rank, folder)
    scaler = torch.amp.GradScaler("simulated", init_scale=8.0)
    x, y = (each.to("simulated") for each in batch(0, 0, rank, 2))
    scaler.scale(nn.functional.mse_loss(training.model(x), y)).backward()
    gradient = next(training.model.parameters()).grad
    assert gradient is not None and gradient.device == torch.device("simulated", rank)
    with pytest.raises(RuntimeError, match=r"clip by lockstep.clip_grad_norm_"):
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
    scaler.step(training.optimizer)
    scaler.update()
    training.optimizer.zero_grad()
    plain = Training(rank, folder)
    plain.run_to(1)
    expected = lockstep.state_dict(plain.model)
    for name, tensor in lockstep.state_dict(training.model).items():
        assert torch.equal(tensor, expected[name]), name


def test_gradients_that_a_rank_does_not_have_raise_on_a_device_and_are_scaled(
    tmp_path: Path,
) -> None:
    run_ranks(2, scale_gradients, tmp_path, backend=simulated_device.BACKEND)
