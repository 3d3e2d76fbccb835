"""torch.amp.GradScaler, as programs use it, with every policy; with autocast and micro-steps."""

import functools

import pytest
import torch
from models import batch, net
from ranks import Crew, run_ranks
from torch import Tensor, nn

import lockstep

RANKS = 4
POLICIES = ["ddp", "zero1", "zero2", "zero3", "mics:2", "mics:2+opt"]
OVERFLOWS = 1  # the step in which rank 2's gradients are not finite


class Training:
    """A user's loop, which does not know of ranks but by its rows."""

    def __init__(self, model: nn.Module, rank: int, ranks: int, scale: float) -> None:
        self.model, self.rank, self.ranks = model, rank, ranks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)

    def loss(self, step: int, part: int, overflows: bool) -> Tensor:
        x, y = batch(step, part, self.rank, self.ranks)
        factor = float("inf") if overflows and self.rank == min(2, self.ranks - 1) else 1.0
        return nn.functional.mse_loss(self.model(x), y) * factor

    def clip(self, norm: float) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), norm)

    def step(self, number: int, clip: float | None = None) -> None:
        self.scaler.scale(self.loss(number, 0, number == OVERFLOWS)).backward()
        if clip is not None:
            self.scaler.unscale_(self.optimizer)
            self.clip(clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


class Sharded(Training):
    def clip(self, norm: float) -> None:
        lockstep.clip_grad_norm_(self.model.parameters(), norm)


class Alone(Training):
    """Plain torch on all rows. An unused parameter has a gradient of zero."""

    def step(self, number: int, clip: float | None = None) -> None:
        for parameter in self.model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        super().step(number, clip)


def scale_by_every_policy(rank: int, clip: float | None) -> None:
    alone = Alone(net(), 0, 1, 2.0**16)
    scales = []
    for step in range(4):
        alone.step(step, clip)
        scales.append(alone.scaler.get_scale())
    assert scales == [2.0**16, 2.0**15, 2.0**15, 2.0**16]
    for policy in POLICIES:
        ours = Sharded(lockstep.shard(net(), policy), rank, RANKS, 2.0**16)
        for step, scale in enumerate(scales):
            ours.step(step, clip)
            assert ours.scaler.get_scale() == scale, (policy, step)
        for name, tensor in lockstep.state_dict(ours.model).items():
            torch.testing.assert_close(tensor, alone.model.state_dict()[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_scaled_training_with_an_overflow_on_one_rank_equals_plain_torch(
    crew: Crew, clip: float | None
) -> None:
    crew.run(functools.partial(scale_by_every_policy, clip=clip))


PARTS = 2


def loss_in_sixteen_bits(model: nn.Module, step: int, part: int, rank: int) -> Tensor:
    x, y = (each.float() for each in batch(step, part, rank, RANKS))
    with torch.autocast("cpu", torch.float16):
        predicted = model(x)
    overflows = (step, part, rank) == (OVERFLOWS, 0, 2)
    return nn.functional.mse_loss(predicted, y) / PARTS * (float("inf") if overflows else 1.0)


def accumulate(rank: int) -> None:
    """Micro-steps under autocast with a loss scale; an overflow in one of them, on one rank."""
    alone = net().float()
    optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(3):
        for parameter in alone.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        for part in range(PARTS):
            for each in range(RANKS):
                loss = loss_in_sixteen_bits(alone, step, part, each) / RANKS
                scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for policy in POLICIES:
        train_in_parts(lockstep.shard(net().float(), policy), rank, alone, scaler.get_scale())


def train_in_parts(model: nn.Module, rank: int, alone: nn.Module, scale: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(3):
        with lockstep.no_sync(model):
            for part in range(PARTS - 1):
                scaler.scale(loss_in_sixteen_bits(model, step, part, rank)).backward()
        scaler.scale(loss_in_sixteen_bits(model, step, PARTS - 1, rank)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.get_scale() == scale == 2.0**9
    for name, tensor in lockstep.state_dict(model).items():
        torch.testing.assert_close(tensor, alone.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_micro_steps_under_autocast_with_a_loss_scale_equal_plain_torch(crew: Crew) -> None:
    crew.run(accumulate)


def train_with_two(rank: int, scaler: torch.amp.GradScaler, fused: bool) -> dict[str, Tensor]:
    model = lockstep.shard(net().float(), "zero3")
    parameters = list(model.parameters())
    optimizers = [
        torch.optim.AdamW(parameters[::2], lr=0.01, fused=fused),
        torch.optim.Adafactor(parameters[1::2], lr=0.01),
    ]
    for step in range(3):
        x, y = (each.float() for each in batch(step, 0, rank, 2))
        scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        model.zero_grad()
    return lockstep.state_dict(model)


def compare_two(rank: int) -> None:
    scaled = train_with_two(rank, torch.amp.GradScaler("cpu"), fused=True)
    plain = train_with_two(rank, torch.amp.GradScaler("cpu", enabled=False), fused=False)
    for name, tensor in scaled.items():
        torch.testing.assert_close(tensor, plain[name], rtol=1e-5, atol=1e-5)


def test_optimizers_that_unscale_in_their_step_or_step_whole_parameters_share_a_scale() -> None:
    run_ranks(2, compare_two)


def unscale_too_early(rank: int) -> None:
    model = lockstep.shard(net(), "zero3")
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    x, _ = batch(0, 0)
    with lockstep.no_sync(model):
        scaler.scale(model(x).sum()).backward()
    with pytest.raises(ValueError, match=r"last micro-step outside of lockstep.no_sync"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"clip by lockstep.clip_grad_norm_"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with pytest.raises(RuntimeError, match=r"clip by lockstep.clip_grad_norm_"):
        print(model.head.weight.grad)


def test_a_scaler_needs_complete_gradients() -> None:
    run_ranks(2, unscale_too_early)
