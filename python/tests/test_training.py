"""lockstep.Training: a rank is killed, the others continue and get one process's result."""

import contextlib
import fcntl
import functools
import multiprocessing
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from models import IN, OUT, net, wave
from ranks import OVERALL_TIMEOUT, fork_all
from torch import Tensor, nn

import lockstep
from lockstep import _checkpoints, _report, _shard
from lockstep._compiled import compiled

RANKS = 4
SAMPLES, BATCH = 1000, 12
STEPS = 6
DEADLY = 4  # the step in which a rank is killed
RATE = 0.01

Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=RATE)


def rmsprop(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """An optimizer that makes its state in the first step, under names that are unknown before."""
    return torch.optim.RMSprop(parameters, lr=RATE, momentum=0.5)


@dataclass(frozen=True)
class Case:
    policy: str
    on_failure: str = "shrink"
    victim: int = 1
    point: str = "backward"  # its position in the step when it is killed
    # others that are killed, by rank, and where
    more: dict[int, str] = field(default_factory=dict)
    doomed: int = -1  # the one of these whose first replacement is killed after it has joined
    saves: int = STEPS  # the number of steps that are saved
    make: Make = adamw
    rescale: bool = False
    on_device: bool = False  # each rank has a simulated device

    @property
    def mortals(self) -> dict[int, str]:
        """By rank, the point at which it is killed."""
        return {self.victim: self.point} | self.more


@dataclass
class Told:
    losses: dict[int, float]
    stories: list[str]
    values: dict[str, Any]  # on rank 0
    is_whole: bool  # to the end; or it left, because no replica needed it
    longest: float = 0  # seconds of a step, including its recoveries


def mean_loss(model: nn.Module, samples: list[int]) -> Tensor:
    device = next(model.parameters()).device
    x = torch.stack([wave(IN, phase=float(sample)) for sample in samples])
    y = torch.stack([wave(OUT, phase=sample + 0.5) for sample in samples])
    return nn.functional.mse_loss(model(x.to(device)), y.to(device))


def device_of(case: Case) -> torch.device:
    if not case.on_device:
        return torch.device("cpu")
    import simulated_device  # not in the parent: a process that uses it must not fork

    simulated_device.serve_lockstep()
    torch.simulated.set_device(int(os.environ["RANK"]))
    return torch.device(simulated_device.NAME)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# The point of recovery at which a rank is killed: it is about to read the state from storage; it
# has read it; all have; before that, all have met, and no rank has opened the checkpoints.
DURING_RECOVERY = {
    "reading": (_checkpoints.OptimizerState, "make_state"),
    "read": (_checkpoints.OptimizerState, "set_steps"),
    "recovered": (_checkpoints.Checkpoints, "_ranks"),
    "reopening": (_checkpoints.Checkpoints, "reopen"),
}


def die_at(owner: Any, name: str, *, is_done: bool) -> None:
    """Instead of the function, or after it."""
    act = getattr(owner, name)

    def last_act(*arguments: Any) -> None:
        kept = act(*arguments) if is_done else None  # kept until the end, for example a connection
        die()
        del kept

    setattr(owner, name, last_act)


def train(case: Case, folder: Path, dies_at: str) -> Told:
    def reach(point: str) -> None:
        if step.number == DEADLY and point == dies_at:
            die()

    told = Told({}, [], {}, is_whole=False)
    pytest.MonkeyPatch().setattr(_report, "warn_and_report", told.stories.append)
    model = lockstep.shard(net(device_of(case)), case.policy)
    optimizer = case.make(model.parameters())
    sampler = lockstep.Sampler(SAMPLES, BATCH, seed=3)
    training = lockstep.Training(
        model, optimizer, sampler, checkpoints=folder / "checkpoints", rescale_batch=case.rescale
    )
    try:
        for step in training.steps(STEPS):
            if step.number == DEADLY and dies_at in DURING_RECOVERY:
                die_at(*DURING_RECOVERY[dies_at], is_done=dies_at != "reopening")
            begun = time.monotonic()
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
                if step.number <= case.saves:
                    step.save()
                reach("save")
            told.longest = max(told.longest, time.monotonic() - begun)
    except SystemExit:
        return told
    told.values = {name: each.tolist() for name, each in lockstep.state_dict(model).items()}
    told.is_whole = True
    return told


def train_alone(case: Case) -> Told:
    """The result that the ranks must reach: one sample after the other, in the sampler's order."""
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
    """One process waits for another's end, at which the kernel frees its lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told, self._tells = os.pipe()

    def hold(self) -> None:
        fcntl.flock(self._open(), fcntl.LOCK_EX)
        os.write(self._tells, b".")

    def wait(self) -> None:
        os.write(self._tells, os.read(self._told, 1))  # others may wait for it, too
        fcntl.flock(self._open(), fcntl.LOCK_EX)

    def _open(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_RDWR)


@contextlib.contextmanager
def meeting_place(secret: str) -> Iterator[int]:
    """The port of a rendezvous server in a separate process: ranks are forked, and must not
    inherit locks that its thread, or OpenSSL in it, holds at that moment."""

    def hold(pipe: Connection) -> None:
        place = compiled().RendezvousServer("127.0.0.1", secret)
        pipe.send(place.port)
        pipe.poll(OVERALL_TIMEOUT * 2)  # until it is killed, or its parent has died

    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=hold, args=(theirs,), daemon=True)
    process.start()
    try:
        assert ours.poll(20), "the rendezvous did not start"
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def run(case: Case, folder: Path) -> list[Told]:
    """The reports of the ranks that were not killed, by rank; last those of replacements."""
    secret = secrets.token_hex(32)
    (folder / "secret").write_text(secret)
    with meeting_place(secret) as port:
        return run_ranks_at(port, case, folder)


def run_ranks_at(port: int, case: Case, folder: Path) -> list[Told]:
    deaths = {rank: Death(folder / f"alive-{rank}") for rank in case.mortals}
    first_replacement = Death(folder / "first-replacement")

    def doomed_process() -> None:
        first_replacement.hold()
        die_at(_shard, "_connect", is_done=True)
        rank_process(case.doomed, replaces=True)

    def last_replacement(rank: int) -> Told:
        if rank == case.doomed:
            first_replacement.wait()
        return rank_process(rank, replaces=True)

    def rank_process(rank: int, replaces: bool = False) -> Told:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{port}",
            "LOCKSTEP_SECRET_FILE": str(folder / "secret"),
            "LOCKSTEP_HOST_ID": "test",
            "LOCKSTEP_ADDRESS": "127.0.0.1",
            "LOCKSTEP_ON_FAILURE": case.on_failure,
            "LOCKSTEP_REPLACES": "1" if replaces else "0",
            "LOCKSTEP_STORE": "aa",
            "LOCKSTEP_ATTEMPT": "demo/1.1",
            "LOCKSTEP_EPOCH": "1",
        }
        dies_at = "" if replaces else case.mortals.get(rank, "")
        if dies_at:
            deaths[rank].hold()
        if replaces:
            deaths[rank].wait()
        return train(case, folder, dies_at)

    bodies: list[Callable[[], Any]] = [
        functools.partial(rank_process, rank) for rank in range(RANKS)
    ]
    if case.on_failure == "wait":
        bodies += [functools.partial(last_replacement, rank) for rank in case.mortals]
    if case.doomed >= 0:
        bodies.append(doomed_process)
    outcomes = fork_all(bodies)
    dead = [*case.mortals, *([len(bodies) - 1] if case.doomed >= 0 else [])]
    for number in dead:
        assert outcomes[number].exit_code == -signal.SIGKILL, outcomes[number].error
    others = [each for number, each in enumerate(outcomes) if number not in dead]
    for outcome in others:
        assert outcome.error is None, outcome.error
        assert outcome.exit_code == 0
    return [outcome.value for outcome in others]


def expect_the_same(told: list[Told], case: Case) -> str:
    """The description that one of them reports."""
    (alone,) = fork_all([functools.partial(train_alone, case)])
    assert alone.error is None, alone.error
    right: Told = alone.value
    seen: set[int] = set()
    for one in told:
        for step, loss in one.losses.items():
            assert loss == pytest.approx(right.losses[step], rel=1e-9), f"step {step}"
        seen |= one.losses.keys()
    # The step in which a rank died may be missing from all reports.
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
    assert "rank 1 was lost; rank 0 leaves, no replica needs it; ranks 2 and 3 go on" in story
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


@pytest.mark.parametrize(
    ("policy", "on_failure"), [("ddp", "shrink"), ("mics:2", "wait"), ("zero3", "shrink")]
)
def test_ranks_on_devices_go_on_too(policy: str, on_failure: str, tmp_path: Path) -> None:
    case = Case(policy, on_failure=on_failure, on_device=True)
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert ("from a checkpoint" if policy == "zero3" else "from memory") in story
    assert all(one.is_whole for one in told)
    # The kernels of the others, and loss.item(), wait for the dead rank until the groups end.
    assert max(one.longest for one in told) < 10


@pytest.mark.parametrize("on_failure", ["shrink", "wait"])
@pytest.mark.parametrize("policy", ["zero1", "zero3"])
def test_what_nobody_else_holds_comes_from_storage(
    policy: str, on_failure: str, tmp_path: Path
) -> None:
    case = Case(policy, on_failure=on_failure, victim=3)
    told = run(case, tmp_path)
    assert "from a checkpoint" in expect_the_same(told, case)
    assert all(one.is_whole for one in told)


@pytest.mark.parametrize(
    ("case", "story"),
    [
        (
            Case("zero3", victim=3, more={0: "reading"}),
            "ranks 0 and 3 were lost; ranks 1 and 2 go on as ranks 0 and 1",
        ),
        (
            Case("zero1", victim=3, more={1: "read"}),
            "ranks 1 and 3 were lost; ranks 0 and 2 go on",
        ),
        (
            Case("mics:2+opt", victim=3, more={1: "reading"}),
            "ranks 1 and 3 were lost; rank 2 leaves, no replica needs it; rank 0 goes on",
        ),
        (
            Case("zero3", on_failure="wait", victim=3, more={1: "reading"}),
            "ranks 1 and 3 died and were started again; ranks 0, 1, 2 and 3 go on",
        ),
        (
            Case("zero2", on_failure="wait", victim=3, more={0: "read"}),
            "ranks 0 and 3 died and were started again; ranks 0, 1, 2 and 3 go on",
        ),
    ],
    ids=["zero3", "zero1", "mics", "zero3-wait", "zero2-wait"],
)
def test_if_another_dies_while_the_state_is_read_it_is_read_again(
    case: Case, story: str, tmp_path: Path
) -> None:
    told = run(case, tmp_path)
    found = expect_the_same(told, case)
    assert story in found
    assert "from a checkpoint" in found
    assert sum(one.is_whole for one in told) == (1 if "leaves" in story else len(told))


def test_a_death_behind_what_was_read_goes_back_to_the_checkpoint_too(tmp_path: Path) -> None:
    # Shard 1 is gone; when all have read, the remaining copy of shard 0 is a step behind.
    case = Case("mics:2", on_failure="wait", more={3: "backward", 0: "recovered"}, saves=2)
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert "rank 0 died and was started again" in story
    assert "from memory" in story
    assert all(one.is_whole for one in told)


@pytest.mark.parametrize("on_failure", ["shrink", "wait"])
def test_a_death_before_the_checkpoints_are_open_again_holds_nobody_up(
    on_failure: str, tmp_path: Path
) -> None:
    case = Case("ddp", on_failure=on_failure, more={0: "reopening"})
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert (
        "rank 0 died and was" if on_failure == "wait" else "rank 0 was lost; ranks 2 and 3"
    ) in story
    assert all(one.is_whole for one in told)
    # No rank waits for the dead one until the rendezvous times out, which takes 20 s.
    assert max(one.longest for one in told) < 10


def test_a_replacement_within_shard_comes_in_once_more_when_another_dies(tmp_path: Path) -> None:
    case = Case("mics:2", on_failure="wait", more={2: "backward"}, doomed=2)
    told = run(case, tmp_path)
    story = expect_the_same(told, case)
    assert "ranks 1 and 2 died and were started again; ranks 0, 1, 2 and 3 go on" in story
    assert all(one.is_whole for one in told)
    assert max(one.longest for one in told) < 10


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
        ("micro_batches", "before all its micro-batches were computed"),
        ("save", "has no checkpoints: give lockstep.Training a folder"),
    ],
)
def test_a_loop_that_leaves_something_out_is_told_what(case: str, words: str) -> None:
    (outcome,) = fork_all([functools.partial(leave_something_out, case)])
    assert outcome.error is not None
    assert words in outcome.error
