"""Optimizers that use the shape of a parameter, or several of its elements at once."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from models import loss_of, net, train_alone
from ranks import Crew, run_ranks
from test_shard import expect_equal, train
from torch import Tensor, nn

import lockstep

RANKS = 4
STEPS = range(3)
POLICIES = ["ddp", "zero1", "zero2", "zero3", "mics:2", "mics:2+opt", "zero3+keep"]


class Normalized(torch.optim.Optimizer):
    """An optimizer from outside of torch: momentum, and steps of one length for each row."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__(parameters, {"lr": 0.05})

    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.move(parameter, group["lr"])

    def move(self, parameter: Tensor, rate: float) -> None:
        state = self.state[parameter]
        if not state:
            state["rows"] = torch.zeros(parameter.shape[0], dtype=parameter.dtype)
        assert parameter.grad is not None
        rows = parameter.grad.reshape(parameter.shape[0], -1).norm(dim=1)
        state["rows"].mul_(0.5).add_(rows)
        scale = (1 + state["rows"]).view(-1, *[1] * (parameter.dim() - 1))
        with torch.no_grad():
            parameter.sub_(rate * parameter.grad / scale)


def adafactor(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adafactor(parameters, lr=0.05)


def train_by_every_policy(
    rank: int, make: Callable[[Iterable[Tensor]], torch.optim.Optimizer], clip: float | None
) -> None:
    alone = net()
    train_alone(alone, make(alone.parameters()), STEPS, clip=clip)
    for policy in POLICIES:
        model = lockstep.shard(net(), policy)
        optimizer = make(model.parameters())
        train(model, optimizer, rank, clip=clip)
        expect_equal(rank, model, alone, policy)


@pytest.mark.parametrize(("make", "clip"), [(adafactor, None), (Normalized, 0.1)])
def test_whole_parameters_are_stepped_as_by_one_process(
    crew: Crew, make: Callable[[Iterable[Tensor]], torch.optim.Optimizer], clip: float | None
) -> None:
    crew.run(functools.partial(train_by_every_policy, make=make, clip=clip))


def split(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The matrices of blocks, and the rest."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    matrices = [each for name, each in named if each.dim() == 2 and "layers" in name]
    return matrices, [each for _, each in named if all(each is not one for one in matrices)]


def muon_and_adamw(model: nn.Module) -> list[torch.optim.Optimizer]:
    matrices, rest = split(model)
    return [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=0.01)]


def train_with(
    model: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    steps: Iterable[int],
    rank: int = 0,
    ranks: int = 1,
) -> None:
    for step in steps:
        loss_of(model, step, 0, rank, ranks).backward()
        for parameter in model.parameters():
            if ranks == 1 and parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def train_by_muon(rank: int) -> None:
    alone = net()
    train_with(alone, muon_and_adamw(alone), STEPS)
    for policy in ("zero1", "mics:2", "zero3"):
        model = lockstep.shard(net(), policy)
        train_with(model, muon_and_adamw(model), STEPS, rank, RANKS)
        for name, tensor in lockstep.state_dict(model).items():
            # Muon computes in bfloat16, in which a last bit of a gradient may round either way.
            torch.testing.assert_close(tensor, alone.state_dict()[name], rtol=2e-2, atol=2e-3)


def test_muon_steps_the_matrices_and_adamw_the_rest(crew: Crew) -> None:
    crew.run(train_by_muon)


def state_is_divided(rank: int) -> int:
    """The elements of this rank's state."""
    model = lockstep.shard(net(), "zero3")
    optimizer = Normalized(model.parameters())
    train(model, optimizer, rank, steps=range(1))
    assert all(each.dim() == 1 for state in optimizer.state.values() for each in state.values())
    return sum(each.numel() for state in optimizer.state.values() for each in state.values())


def test_each_parameter_has_its_state_on_one_rank() -> None:
    rows = sum(each.shape[0] for each in net().parameters() if each.requires_grad)
    held = run_ranks(RANKS, state_is_divided)
    assert sum(held) == rows
    assert min(held) > 0


def steps_slices(rank: int) -> set[torch.Size]:
    """The shapes of the parameters that an optimizer gets."""
    seen: set[torch.Size] = set()

    class Looking(torch.optim.Optimizer):
        def step(self, closure: None = None) -> None:
            seen.update(each.shape for each in self.param_groups[0]["params"])

    model = lockstep.shard(net(), "zero1")
    optimizer = lockstep.mark_elementwise(Looking(model.parameters(), {}))
    train(model, optimizer, rank, steps=range(1))
    return seen


def test_an_optimizer_that_is_marked_elementwise_steps_slices() -> None:
    for shapes in run_ranks(2, steps_slices):
        assert all(len(shape) == 1 for shape in shapes)


def train_in_sixteen_bits(rank: int) -> float:
    """How far a parameter has moved, in steps smaller than bfloat16 resolves."""
    model = lockstep.shard(net().to(torch.bfloat16), "zero3")
    before = lockstep.state_dict(model)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-4)
    for step in range(3):
        x = torch.ones(2, 5, dtype=torch.bfloat16) * (step + 1)
        model(x).float().square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    masters = {name: part for name, _, _, _, part in model._lockstep.core.state()}
    first = masters["parameter/head.weight"]
    assert first.dtype == torch.float32
    assert not before or before["head.weight"].dtype == torch.bfloat16
    return float((first - first.to(torch.bfloat16).float()).abs().sum())


def test_masters_of_sixteen_bits_are_stepped_whole() -> None:
    assert max(run_ranks(2, train_in_sixteen_bits)) > 0


Optimizers = Callable[[nn.Module], list[torch.optim.Optimizer]]


def adafactor_alone(model: nn.Module) -> list[torch.optim.Optimizer]:
    return [adafactor(model.parameters())]


def normalized_and_adamw(model: nn.Module) -> list[torch.optim.Optimizer]:
    matrices, rest = split(model)
    return [Normalized(matrices), torch.optim.AdamW(rest, lr=0.01)]


def resume_and_save(rank: int, ranks: int, folder: Path, policy: str, make: Optimizers) -> None:
    """Two steps more than the newest checkpoint has."""
    model = lockstep.shard(net(), policy)
    optimizers = make(model)
    checkpoints = lockstep.Checkpoints(folder, model, optimizers)
    begin = checkpoints.resume()
    train_with(model, optimizers, range(begin, begin + 2), rank, ranks)
    checkpoints.save(begin + 2)
    checkpoints.finish()
    alone = net()
    train_with(alone, make(alone), range(begin + 2))
    expect_equal(rank, model, alone, f"{policy} after step {begin + 2}")


@pytest.mark.parametrize("make", [adafactor_alone, normalized_and_adamw])
def test_checkpoints_hold_whole_state_for_any_number_of_ranks(
    tmp_path: Path, make: Optimizers
) -> None:
    for ranks, policy in ((4, "zero3"), (2, "ddp"), (4, "mics:2")):
        run_ranks(ranks, resume_and_save, ranks, tmp_path, policy, make)


def test_checkpoints_need_the_optimizers_of_all_parameters(tmp_path: Path) -> None:
    model = lockstep.shard(net(), "zero1")
    muon, adamw = muon_and_adamw(model)
    with pytest.raises(ValueError, match=r"does not step first.weight: .* the list"):
        lockstep.Checkpoints(tmp_path, model, muon)
    with pytest.raises(ValueError, match=r"several optimizers step layers.0.linear.weight"):
        lockstep.Checkpoints(tmp_path, model, [muon, adamw, muon])
