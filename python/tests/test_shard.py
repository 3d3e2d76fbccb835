"""lockstep.shard: many ranks compute what one process computes alone, by every policy."""

import functools

import pytest
import torch
from models import Carried, Net, batch, loss_of, net, train_alone
from ranks import Crew
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import lockstep

RANKS = 4
STEPS = range(3)
POLICIES = ["ddp", "zero1", "zero2", "zero3", "mics:2", "mics:2+opt", "zero3+keep"]
EXACT = 1e-10


def sgd(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adamw(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


RECIPES = {
    "sgd, three micro-steps": (sgd, 3, None),
    "adamw": (adamw, 1, None),
    "adamw, three micro-steps": (adamw, 3, None),
    "sgd, clipped": (sgd, 1, 0.1),
}


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rank: int,
    parts: int = 1,
    clip: float | None = None,
    steps: range = STEPS,
) -> None:
    """The loop of a user's script."""
    for step in steps:
        with lockstep.no_sync(model):
            for part in range(parts - 1):
                (loss_of(model, step, part, rank, RANKS) / parts).backward()
        (loss_of(model, step, parts - 1, rank, RANKS) / parts).backward()
        if clip is not None:
            lockstep.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()


def expect_equal(rank: int, model: nn.Module, alone: nn.Module, what: str) -> None:
    whole = lockstep.state_dict(model)
    if rank != 0:
        assert whole == {}
        return
    expected = alone.state_dict()
    assert list(whole) == list(expected), what
    for name, tensor in expected.items():
        torch.testing.assert_close(
            whole[name],
            tensor,
            rtol=EXACT,
            atol=EXACT,
            msg=lambda text, n=name: f"{what} {n}: {text}",
        )


def train_by_every_policy(rank: int, recipe: str) -> None:
    make, parts, clip = RECIPES[recipe]
    alone = net()
    train_alone(alone, make(alone.parameters()), STEPS, parts, clip)
    assert (alone.head.weight - net().head.weight).abs().max() > 1e-3
    for policy in POLICIES:
        model = lockstep.shard(net(), policy)
        train(model, make(model.parameters()), rank, parts, clip)
        expect_equal(rank, model, alone, policy)


@pytest.mark.parametrize("recipe", RECIPES)
def test_four_ranks_equal_one_process_by_every_policy(crew: Crew, recipe: str) -> None:
    crew.run(functools.partial(train_by_every_policy, recipe=recipe))


def tell_the_norm(rank: int) -> None:
    (expected,) = train_alone(alone := net(), sgd(alone.parameters()), range(1))
    for policy in POLICIES:
        model = lockstep.shard(net(), policy)
        loss_of(model, 0, 0, rank, RANKS).backward()
        norm = lockstep.clip_grad_norm_(model.parameters(), 1e9)
        assert norm == pytest.approx(expected, rel=1e-12), policy


def test_the_norm_counts_each_element_once_in_every_policy(crew: Crew) -> None:
    crew.run(tell_the_norm)


def overflow_on_one_rank(rank: int) -> None:
    for policy in ("ddp", "zero1", "mics:2", "zero3"):
        model = lockstep.shard(net(), policy)
        optimizer = adamw(model.parameters())
        before = lockstep.state_dict(model)
        factor = float("inf") if rank == 2 else 1.0
        (loss_of(model, 0, 0, rank, RANKS) * factor).backward()
        optimizer.step()
        core = next(model.parameters())._lockstep[0].core
        where = "rank 2" if policy in ("ddp", "zero1") else "the replica of rank"
        assert core.non_finite().startswith(where), policy
        optimizer.zero_grad()
        after = lockstep.state_dict(model)
        for name, tensor in before.items():
            assert torch.equal(after[name], tensor), (policy, name)
        # And continues.
        alone = net()
        train_alone(alone, adamw(alone.parameters()), range(2))
        train(model, optimizer, rank, steps=range(2))
        expect_equal(rank, model, alone, policy)


def test_a_step_that_is_not_finite_anywhere_is_taken_by_nobody(crew: Crew) -> None:
    crew.run(overflow_on_one_rank)


class Recomputing(Net):
    """Recomputes as models written for torch do: each block is called within checkpoint()."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        carried = Carried(hidden, (hidden + self.back(x),))
        for layer in self.layers:
            # As some code does, without the module's hooks.
            carried = checkpoint(layer.forward, carried, use_reentrant=False)
        return self.head(carried.hidden)


def recompute(rank: int) -> None:
    alone = net()
    train_alone(alone, adamw(alone.parameters()), STEPS)
    for policy in ("zero2", "zero3", "mics:2+opt"):
        model = Recomputing()
        model.load_state_dict(net().state_dict())
        lockstep.shard(model, policy)
        train(model, adamw(model.parameters()), rank)
        expect_equal(rank, model, alone, policy)
        model = lockstep.shard(net(), f"{policy}+recompute")
        train(model, adamw(model.parameters()), rank)
        expect_equal(rank, model, alone, f"{policy}+recompute")


def test_blocks_may_be_recomputed(crew: Crew) -> None:
    crew.run(recompute)


def two_optimizers(rank: int) -> None:
    def halves(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
        parameters = list(model.parameters())
        return parameters[::2], parameters[1::2]

    alone = net()
    ours = lockstep.shard(net(), "mics:2")
    for model, share in ((alone, None), (ours, rank)):
        first, second = (make(half) for make, half in zip((sgd, adamw), halves(model), strict=True))
        for step in STEPS:
            if share is None:
                loss_of(model, step, 0).backward()
                for parameter in model.parameters():
                    if parameter.grad is None and parameter.requires_grad:
                        parameter.grad = torch.zeros_like(parameter)
            else:
                loss_of(model, step, 0, share, RANKS).backward()
            first.step()
            second.step()
            first.zero_grad()
            second.zero_grad()
    expect_equal(rank, ours, alone, "two optimizers")


def test_two_optimizers_may_step_a_part_each(crew: Crew) -> None:
    crew.run(two_optimizers)


def look_at_parameters(rank: int) -> None:
    plain = net()
    model = lockstep.shard(net(), "zero3")
    optimizer = adamw(model.parameters())
    for _ in range(2):
        ours, theirs = dict(model.named_parameters()), dict(plain.named_parameters())
        assert [(name, each.shape) for name, each in ours.items()] == [
            (name, each.shape) for name, each in theirs.items()
        ]
        assert model.layers[1].linear.weight.untyped_storage().nbytes() == 0
        train(model, optimizer, rank, steps=range(1))
    # Without autograd, and in between.
    with torch.no_grad():
        expected = model(torch.ones(2, 5, dtype=torch.float64))
    whole = lockstep.state_dict(model)
    if rank == 0:
        plain.load_state_dict(whole)
        torch.testing.assert_close(
            plain(torch.ones(2, 5, dtype=torch.float64)), expected, rtol=EXACT, atol=EXACT
        )


def test_parameters_keep_their_names_and_shapes_and_have_no_memory(crew: Crew) -> None:
    crew.run(look_at_parameters)


def load_into_another(rank: int) -> None:
    other = net()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(3)
    model = lockstep.shard(net(), "mics:2+opt")
    lockstep.load_state_dict(model, other.state_dict())
    expect_equal(rank, model, other, "loaded")


def test_a_state_dict_is_loaded(crew: Crew) -> None:
    crew.run(load_into_another)


def step_in_sixteen_bits(rank: int) -> None:
    """A step moves parameters by less than bfloat16 resolves: only masters keep that."""
    exact = net()
    optimizer = torch.optim.SGD(exact.parameters(), lr=1e-4)
    train_alone(exact, optimizer, range(8))
    for policy in ("ddp", "mics:2+opt"):
        narrow = net().to(torch.bfloat16)
        model = lockstep.shard(narrow, policy)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        for step in range(8):
            x, y = (each.to(torch.bfloat16) for each in batch(step, 0, rank, RANKS))
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        core = model._lockstep.core
        start, end = net().state_dict(), exact.state_dict()
        for name, _, begin, stop, tensor in core.state():
            plain = name.split("/")[1]
            if "frozen" in name or not name.startswith("parameter/"):
                continue
            assert tensor.dtype == torch.float32
            moved = (end[plain] - start[plain]).flatten()
            ours = tensor.double() - start[plain].to(torch.bfloat16).double().flatten()[begin:stop]
            limit = 0.05 * moved.abs().max() + 1e-5
            assert torch.all((ours - moved[begin:stop]).abs() < limit), (policy, name)


def test_masters_keep_steps_too_small_for_sixteen_bits(crew: Crew) -> None:
    crew.run(step_in_sixteen_bits)
