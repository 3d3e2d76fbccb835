"""Checkpoints from Python: every number of ranks and policy resumes from every other."""

import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import loss_of, net
from ranks import Crew, run_ranks
from torch import Tensor, nn

import lockstep

SAMPLES = 100

Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


def adamw(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def sgd(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def rmsprop(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, lr=0.001)


class Training:
    """A run as in a user's script, with its checkpoints in a folder."""

    def __init__(self, folder: str, policy: str, make: Make = adamw) -> None:
        self.model: nn.Module = lockstep.shard(net(), policy)
        self.optimizer = make(self.model.parameters())
        self.sampler = lockstep.Sampler(SAMPLES, global_batch=12, seed=3)
        self.checkpoints = lockstep.Checkpoints(folder, self.model, self.optimizer, self.sampler)
        self.done = self.checkpoints.resume()
        self.seen: list[int] = []

    def run_to(self, step: int, rank: int, ranks: int) -> None:
        for number in range(self.done, step):
            self.seen += self.sampler.next()
            loss_of(self.model, number, 0, rank, ranks).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.done = step

    def save(self) -> None:
        self.checkpoints.save(self.done, {"who": "a test"})
        self.checkpoints.finish()

    def values(self) -> dict[str, Any]:
        return {name: each.tolist() for name, each in lockstep.state_dict(self.model).items()}


def run(rank: int, ranks: int, folder: str, policy: str, make: Make, to: int) -> dict[str, Any]:
    training = Training(folder, policy, make)
    training.run_to(to, rank, ranks)
    training.save()
    return {"begun": training.done, "seen": training.seen, **training.values()}


@pytest.mark.parametrize("make", [adamw, sgd, rmsprop])
def test_every_number_of_ranks_and_policy_goes_on_from_every_other(
    make: Make, backend: str, tmp_path: Path
) -> None:
    """A chain through the layouts ends with the result of one process that never stopped."""
    (alone,) = run_ranks(1, run, 1, str(tmp_path / "alone"), "ddp", make, 6, backend=backend)
    chain = [(4, "zero3"), (2, "mics:2"), (4, "mics:2+opt"), (1, "ddp"), (3, "zero1"), (4, "ddp")]
    seen: list[int] = []
    for step, (ranks, policy) in enumerate(chain, start=1):
        folder = str(tmp_path / "chain")
        parts = run_ranks(ranks, run, ranks, folder, policy, make, step, backend=backend)
        seen += [sample for part in parts for sample in part["seen"]]
    assert seen == alone["seen"]  # each sample once, whatever the ranks
    for name, values in alone.items():
        if name not in ("seen", "begun"):
            torch.testing.assert_close(
                torch.tensor(parts[0][name]), torch.tensor(values), rtol=1e-10, atol=1e-10
            )


def stop_and_go_on(rank: int, folder: str) -> None:
    whole = Training(f"{folder}/whole", "mics:2")
    whole.run_to(4, rank, 4)
    begun = Training(f"{folder}/cut", "mics:2")
    begun.run_to(2, rank, 4)
    begun.save()
    torch.manual_seed(0)
    resumed = Training(f"{folder}/cut", "mics:2")
    assert resumed.done == 2
    resumed.run_to(4, rank, 4)
    assert resumed.values() == whole.values()


def test_going_on_gives_the_bits_of_not_having_stopped(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(stop_and_go_on, folder=str(tmp_path)))


def save_before_the_first_step(rank: int, folder: str) -> None:
    begun = Training(folder, "zero2", sgd)
    begun.save()
    resumed = Training(folder, "zero3", sgd)
    resumed.run_to(1, rank, 4)
    again = Training(f"{folder}/other", "zero3", sgd)
    again.run_to(1, rank, 4)
    assert resumed.values() == again.values()
    with pytest.raises(ValueError, match="it was trained with sgd, not adamw"):
        Training(folder, "zero3", adamw)


def test_a_checkpoint_before_the_first_step_and_one_of_another_optimizer(
    crew: Crew, tmp_path: Path
) -> None:
    crew.run(functools.partial(save_before_the_first_step, folder=str(tmp_path)))


def save_what_is_not_by_element(rank: int, folder: str) -> None:
    model = lockstep.shard(net(), "zero1")
    optimizer = torch.optim.NAdam(model.parameters())
    loss_of(model, 0, 0, rank, 4).backward()
    optimizer.step()
    checkpoints = lockstep.Checkpoints(folder, model, optimizer)
    with pytest.raises(ValueError, match="mu_product of NAdam is not by element"):
        checkpoints.save(1)
    with pytest.raises(ValueError, match=r"does not step .*: give it all parameters"):
        few = torch.optim.AdamW(list(model.parameters())[:1])
        lockstep.Checkpoints(folder, model, few)


def test_state_that_checkpoints_cannot_hold_is_refused_by_name(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(save_what_is_not_by_element, folder=str(tmp_path)))


def evaluate_beside_a_training(rank: int, folder: str) -> None:
    training = Training(folder, "zero3")
    training.run_to(1, rank, 4)
    training.save()
    model = lockstep.shard(net(), "ddp")
    evaluated = lockstep.Checkpoints(folder, model, adamw(model.parameters()), write=False)
    assert evaluated.resume() == 1
    with pytest.raises(ValueError, match="was opened for reading"):
        evaluated.save(1)
    training.run_to(2, rank, 4)
    training.save()


def test_evaluating_beside_a_training_takes_nothing_from_it(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(evaluate_beside_a_training, folder=str(tmp_path)))


# A program that a run starts, with its output.
PROGRAM = """
import os, sys, torch, lockstep
run, attempt, act = sys.argv[1:4]
folder = sys.argv[4]
if run != "none":
    os.environ |= {"LOCKSTEP_STORE": "aa", "LOCKSTEP_ATTEMPT": f"{run}.{attempt}"}
if act == "train":
    os.environ["LOCKSTEP_CHECKPOINT_DIR"] = folder
model = lockstep.shard(torch.nn.Sequential(torch.nn.Linear(2, 2)))
optimizer = torch.optim.AdamW(model.parameters())
checkpoints = lockstep.Checkpoints(folder, model, optimizer)
step = checkpoints.resume()
print("resumed", step, flush=True)
if act == "read":
    sys.exit()
for line in sys.stdin:
    step += 1
    checkpoints.save(step)
    checkpoints.finish()
    print("saved", step, flush=True)
"""


class Program:
    """A process of PROGRAM, which saves at each request."""

    def __init__(self, run: str, attempt: int, act: str, folder: Path, report: str = "") -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, run, str(attempt), act, str(folder)],
            env=environment | {"LOCKSTEP_REPORT": report},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *ignored: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next line of the program; without an agent each checkpoint is a line, too."""
        assert self.process.stdout is not None
        lines = (line.strip() for line in self.process.stdout)
        return next((line for line in lines if not line.startswith("step ")), "")

    def save(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        return self.line()

    def error(self) -> str:
        return self.process.communicate(timeout=60)[1]


def test_a_second_run_in_the_folder_is_refused_at_its_start_and_readers_are_not(
    tmp_path: Path,
) -> None:
    with (
        Program("default/11", 1, "train", tmp_path) as living,
        Program("default/12", 1, "train", tmp_path / "own") as other,
    ):
        assert living.line() == other.line() == "resumed 0"
        assert living.save() == "saved 1"
        with Program("default/12", 1, "train", tmp_path) as second:
            said = second.error()
        assert "default/11 (attempt 1, on " in said, said
        assert "give this run a folder of its own with --checkpoint-folder, or stop" in said
        with Program("none", 0, "read", tmp_path) as reader:
            assert reader.line() == "resumed 1"
            assert "default/11 (attempt 1, on " in reader.error()
        assert living.save() == "saved 2"
        living.process.kill()
        living.process.wait()
        with Program("default/12", 1, "train", tmp_path) as after:
            assert after.line() == "resumed 2"
            assert after.save() == "saved 3"


def test_an_attempt_that_was_replaced_tells_its_agent(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "agent"))
    listener.listen()
    folder = tmp_path / "checkpoints"
    with listener, Program("demo/3", 1, "train", folder, str(tmp_path / "agent")) as first:
        assert first.line() == "resumed 0"
        with Program("demo/3", 2, "train", folder) as second:
            assert second.line() == "resumed 0"
            assert second.save() == "saved 1"
            assert first.save() == ""
            said = first.error()
        assert f"attempt 1 of demo/3 may not write to {folder}: attempt 2 took over at 20" in said
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            reports = [json.loads(line) for line in stream.read().splitlines()]
    fault = next(each for each in reports if each["kind"] == "fault")
    assert (fault["fault"], fault["rank"]) == ("superseded", -1)
    assert "attempt 2 took over" in fault["text"]
