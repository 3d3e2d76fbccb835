"""lockstep.Training: a rank is killed, the others go on and learn what one process alone learns."""

import fcntl
import functools
import os
import secrets
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from models import IN, OUT, net, wave
from ranks import fork_all
from torch import Tensor, nn

import lockstep
from lockstep import _report
from lockstep.backend import compiled

RANKS = 4
SAMPLES, BATCH = 1000, 12
STEPS = 6
DEADLY = 4  # the step in which a rank is killed
RATE = 0.01

Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=RATE)


def rmsprop(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """One that makes its state in the first step, under names that nobody knows before."""
    return torch.optim.RMSprop(parameters, lr=RATE, momentum=0.5)


@dataclass(frozen=True)
class Case:
    policy: str
    on_failure: str = "shrink"
    victim: int = 1
    point: str = "backward"  # what it has done of the deadly step
    make: Make = adamw
    rescale: bool = False


@dataclass
class Told:
    losses: dict[int, float]
    stories: list[str]
    values: dict[str, Any]  # on rank 0
    is_whole: bool  # to the end; or it left, because no replica needed it


def mean_loss(model: nn.Module, samples: list[int]) -> Tensor:
    x = torch.stack([wave(IN, phase=float(sample)) for sample in samples])
    y = torch.stack([wave(OUT, phase=sample + 0.5) for sample in samples])
    return nn.functional.mse_loss(model(x), y)


def train(case: Case, folder: Path, mortal: bool) -> Told:
    def reach(point: str) -> None:
        if mortal and step.number == DEADLY and point == case.point:
            os.kill(os.getpid(), signal.SIGKILL)

    told = Told({}, [], {}, is_whole=False)
    pytest.MonkeyPatch().setattr(_report, "warn_of", told.stories.append)
    model = lockstep.shard(net(), case.policy)
    optimizer = case.make(model.parameters())
    sampler = lockstep.Sampler(SAMPLES, BATCH, seed=3)
    training = lockstep.Training(
        model, optimizer, sampler, checkpoints=folder / "checkpoints", rescale=case.rescale
    )
    try:
        for step in training.steps(STEPS):
            with step:
                loss = 0.0
                for samples, weight in step:
                    reach("nothing")
                    part = mean_loss(model, samples) * weight
                    part.backward()
                    loss += part.item()
                reach("backward")
                lockstep.clip_grad_norm_(model.parameters(), 0.5)
                reach("norm")
                optimizer.step()
                optimizer.zero_grad()
                told.losses[step.number] = training.mean(loss)
                step.save()
                reach("save")
    except SystemExit:
        return told
    told.values = {name: each.tolist() for name, each in lockstep.state_dict(model).items()}
    told.is_whole = True
    return told


def train_alone(case: Case) -> Told:
    """What the ranks are to come to: a sample after the other, as the sampler has them."""
    told = Told({}, [], {}, is_whole=True)
    model = lockstep.shard(net())
    optimizer = case.make(model.parameters())
    sampler = lockstep.Sampler(SAMPLES, 1, seed=3)
    for step in range(1, STEPS + 1):
        few = case.rescale and step >= DEADLY
        samples = [sampler.next()[0] for _ in range(BATCH * 3 // 4 if few else BATCH)]
        for group in optimizer.param_groups:
            group["lr"] = RATE * (0.75 if few else 1)
        loss = mean_loss(model, samples)
        loss.backward()
        lockstep.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        told.losses[step] = loss.item()
    told.values = {name: each.tolist() for name, each in lockstep.state_dict(model).items()}
    return told


class Death:
    """One process waits for another's end, whose lock the kernel frees."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told, self._tells = os.pipe()

    def hold(self) -> None:
        fcntl.flock(self._open(), fcntl.LOCK_EX)
        os.write(self._tells, b".")

    def wait(self) -> None:
        os.read(self._told, 1)
        fcntl.flock(self._open(), fcntl.LOCK_EX)

    def _open(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_RDWR)


def run(case: Case, folder: Path) -> list[Told]:
    """What those who were not killed tell, by rank; last who came in place of the dead."""
    secret = secrets.token_hex(32)
    (folder / "secret").write_text(secret)
    place = compiled().MeetingPlace("127.0.0.1", secret)
    death = Death(folder / "alive")

    def rank_process(rank: int, replaces: bool = False) -> Told:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{place.port}",
            "LOCKSTEP_SECRET_FILE": str(folder / "secret"),
            "LOCKSTEP_HOST_ID": "test",
            "LOCKSTEP_ADDRESS": "127.0.0.1",
            "LOCKSTEP_ON_FAILURE": case.on_failure,
            "LOCKSTEP_REPLACES": "1" if replaces else "0",
            "LOCKSTEP_EPOCH": "1",
        }
        mortal = rank == case.victim and not replaces
        if mortal:
            death.hold()
        if replaces:
            death.wait()
        return train(case, folder, mortal)

    bodies: list[Callable[[], Any]] = [
        functools.partial(rank_process, rank) for rank in range(RANKS)
    ]
    if case.on_failure == "wait":
        bodies.append(functools.partial(rank_process, case.victim, replaces=True))
    outcomes = fork_all(bodies)
    killed = outcomes.pop(case.victim)
    assert killed.exit_code == -signal.SIGKILL, killed.error
    for outcome in outcomes:
        assert outcome.error is None, outcome.error
        assert outcome.exit_code == 0
    return [outcome.value for outcome in outcomes]


def expect_the_same(told: list[Told], case: Case) -> str:
    """The story that one of them tells."""
    (alone,) = fork_all([functools.partial(train_alone, case)])
    assert alone.error is None, alone.error
    right: Told = alone.value
    seen: set[int] = set()
    for one in told:
        for step, loss in one.losses.items():
            assert loss == pytest.approx(right.losses[step], rel=1e-9), f"step {step}"
        seen |= one.losses.keys()
    # Of the step in which a rank died nobody may have told.
    assert seen | {DEADLY} == right.losses.keys()
    (values,) = [one.values for one in told if one.values]
    for name, value in right.values.items():
        torch.testing.assert_close(
            torch.tensor(values[name]), torch.tensor(value), rtol=1e-9, atol=1e-9
        )
    (story,) = [story for one in told for story in one.stories]
    return story


@pytest.mark.parametrize("point", ["nothing", "backward", "norm", "save"])
def test_the_replica_that_is_left_goes_on(point: str, tmp_path: Path) -> None:
    case = Case("mics:2", point=point)
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert "rank 1 died; rank 0 leaves, no replica needs it; ranks 2 and 3 go on" in story
    assert "from memory" in story
    assert [one.is_whole for one in told] == [False, True, True]


def test_each_of_three_goes_on_where_all_hold_everything(tmp_path: Path) -> None:
    case = Case("ddp", victim=0)
    told = run(case, tmp_path)
    assert "ranks 1, 2 and 3 go on as ranks 0, 1 and 2" in expect_the_same(told, case)
    assert all(one.is_whole for one in told)


@pytest.mark.parametrize(("policy", "make"), [("mics:2", adamw), ("ddp", rmsprop)])
def test_another_comes_in_place_of_the_dead(policy: str, make: Make, tmp_path: Path) -> None:
    case = Case(policy, on_failure="wait", victim=2, point="norm", make=make)
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert "rank 2 died and was started again; ranks 0, 1, 2 and 3 go on" in story
    assert "from memory" in story
    assert all(one.is_whole for one in told)


@pytest.mark.parametrize("on_failure", ["shrink", "wait"])
@pytest.mark.parametrize("policy", ["zero1", "zero3"])
def test_what_nobody_else_holds_comes_from_storage(
    policy: str, on_failure: str, tmp_path: Path
) -> None:
    case = Case(policy, on_failure=on_failure, victim=3)
    told = run(case, tmp_path)
    assert "from a checkpoint" in expect_the_same(told, case)
    assert all(one.is_whole for one in told)


def test_fewer_ranks_take_a_smaller_batch_at_a_smaller_rate_if_told_to(tmp_path: Path) -> None:
    case = Case("ddp", rescale=True)
    story = expect_the_same(run(case, tmp_path), case)
    assert "the global batch is 9 samples now, the learning rate 0.75 of what it was" in story


def leave_something_out(case: str) -> None:
    training = lockstep.Training(
        model := lockstep.shard(net()), adamw(model.parameters()), lockstep.Sampler(SAMPLES, BATCH)
    )
    steps = training.steps(2)
    step = next(steps)
    if case == "with":
        next(steps)
    with step:
        if case == "save":
            step.save()


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("with", "compute it within `with step:`"),
        ("parts", "before all parts of its batch were computed"),
        ("save", "has no checkpoints: give lockstep.Training a folder"),
    ],
)
def test_a_loop_that_leaves_something_out_is_told_what(case: str, words: str) -> None:
    (outcome,) = fork_all([functools.partial(leave_something_out, case)])
    assert outcome.error is not None
    assert words in outcome.error
