"""Policy ps:K: servers hold the state, workers come and go; the results of one process."""

import contextlib
import functools
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import IN, OUT, net, wave
from ranks import fork_all
from test_training import meeting_place
from torch import Tensor, nn

import lockstep

SAMPLES, BATCH, STEPS = 1000, 12, 6
WORKERS = 3
Values = dict[str, Any]


def mean_loss(model: nn.Module, samples: list[int]) -> Tensor:
    x = torch.cat([wave(1, IN, phase=sample) for sample in samples])
    y = torch.cat([wave(1, OUT, phase=sample + 0.5) for sample in samples])
    loss: Tensor = nn.functional.mse_loss(model(x), y)
    return loss


def train(policy: str, folder: Path, steps: int = STEPS, dies_at: int = 0) -> list[int]:
    """A rank; the steps of which it computed shares."""
    model = lockstep.shard(net(torch.device("cpu")), policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    sampler = lockstep.Sampler(SAMPLES, BATCH, seed=3)
    training = lockstep.Training(
        model, optimizer, sampler, checkpoints=folder / "checkpoints", save_every=2
    )
    computed = []
    for step in training.steps(steps):
        with step:
            for samples, weight in step:
                (mean_loss(model, samples) * weight).backward()
                if step.number == dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            optimizer.param_groups[0]["lr"] = 0.01  # of workers: the servers follow
            optimizer.step()
            optimizer.zero_grad()
        computed.append(step.number)
    return computed


def train_and_read(policy: str) -> Values:
    """The module's own parameters after the training, and lockstep.state_dict of it."""
    model = lockstep.shard(net(torch.device("cpu")), policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    training = lockstep.Training(model, optimizer, lockstep.Sampler(SAMPLES, BATCH, seed=3))
    take_steps(training, model, optimizer, STEPS)
    state = lockstep.state_dict(model)
    return {
        "parameters": {name: each.tolist() for name, each in model.named_parameters()},
        "state": {name: each.tolist() for name, each in state.items()},
    }


def take_steps(
    training: lockstep.Training, model: nn.Module, optimizer: torch.optim.Optimizer, last: int
) -> None:
    for step in training.steps(last):
        with step:
            for samples, weight in step:
                (mean_loss(model, samples) * weight).backward()
            optimizer.step()
            optimizer.zero_grad()


def train_twice() -> str:
    """The error of a second training.steps()."""
    model = lockstep.shard(net(torch.device("cpu")), "ps:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    training = lockstep.Training(model, optimizer, lockstep.Sampler(SAMPLES, BATCH, seed=3))
    take_steps(training, model, optimizer, 1)
    with pytest.raises(ValueError) as error:
        take_steps(training, model, optimizer, 2)
    return str(error.value)


def train_many_groups() -> list[float]:
    """The learning rates of an optimizer with more than a few parameter groups."""
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(12)])
    model = lockstep.shard(model, "ps:1")
    optimizer = torch.optim.SGD([{"params": [each]} for each in model.parameters()], lr=0.5)
    training = lockstep.Training(model, optimizer, lockstep.Sampler(SAMPLES, BATCH, seed=3))
    for step in training.steps(1):
        with step:
            for samples, weight in step:
                (model(torch.ones(len(samples), 2)).mean() * weight).backward()
            for number, group in enumerate(optimizer.param_groups):
                group["lr"] = 0.01 * number
            optimizer.step()
            optimizer.zero_grad()
    return [group["lr"] for group in optimizer.param_groups]


def trained_alone() -> tuple[nn.Module, torch.optim.Optimizer, lockstep.Sampler]:
    model = lockstep.shard(net(torch.device("cpu")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    sampler = lockstep.Sampler(SAMPLES, BATCH, seed=3)
    for _ in range(STEPS):
        mean_loss(model, sampler.next()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer, sampler


def train_alone(folder: Path) -> Values:
    """The values of the last checkpoint, and those of one process by the same samples."""
    model, optimizer, sampler = trained_alone()
    expected = {name: each.clone() for name, each in lockstep.state_dict(model).items()}
    checkpoints = lockstep.Checkpoints(folder / "checkpoints", model, optimizer, sampler)
    step = checkpoints.resume()
    saved = lockstep.state_dict(model)
    different = max(
        float((saved[name] - each).abs().max())
        for name, each in expected.items()
        if each.is_floating_point()
    )
    return {"step": step, "different": different, "cursor": sampler.cursor}


def run(bodies: dict[int, list[Callable[[], Any]]], folder: Path, ranks: int) -> list[Any]:
    """Runs processes as these ranks; those of one rank may be several."""
    secret = secrets.token_hex(32)
    (folder / "secret").write_text(secret)

    def process(rank: int, body: Callable[[], Any], port: int) -> Any:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{port}",
            "LOCKSTEP_SECRET_FILE": str(folder / "secret"),
            "LOCKSTEP_HOST_ID": "test",
            "LOCKSTEP_ADDRESS": "127.0.0.1",
        }
        return body()

    with meeting_place(secret) as port:
        return fork_all(
            [
                functools.partial(process, rank, body, port)
                for rank, of_rank in bodies.items()
                for body in of_rank
            ]
        )


def run_alike(policy: str, folder: Path, ranks: int) -> list[Any]:
    body = functools.partial(train, policy, folder)
    outcomes = run({rank: [body] for rank in range(ranks)}, folder, ranks)
    for outcome in outcomes:
        assert outcome.error is None, outcome.error
        assert outcome.exit_code == 0
    return [outcome.value for outcome in outcomes]


def all_of(told: list[list[int]]) -> list[int]:
    """The steps of all shares."""
    return sorted(step for computed in told for step in computed)


def alone(folder: Path) -> Values:
    (outcome,) = fork_all([functools.partial(train_alone, folder)])
    assert outcome.error is None, outcome.error
    value: Values = outcome.value
    return value


@pytest.mark.parametrize("policy", ["ps:1", "ps:2", "ps:2,servers=0;3"])
def test_workers_in_step_give_the_results_of_one_process(policy: str, tmp_path: Path) -> None:
    ranks = WORKERS + int(policy[3])
    told = run_alike(policy, tmp_path, ranks)
    workers = [computed for computed in told if computed]
    assert workers == [list(range(1, STEPS + 1))] * WORKERS
    result = alone(tmp_path)
    assert (result["step"], result["cursor"]) == (STEPS, STEPS * BATCH)
    assert result["different"] < 1e-9


@pytest.mark.parametrize("policy", ["ps:2,staleness=2", "ps:2,async"])
def test_each_share_of_each_step_is_computed_once(policy: str, tmp_path: Path) -> None:
    told = run_alike(policy, tmp_path, WORKERS + 2)
    assert all_of(told) == sorted(list(range(1, STEPS + 1)) * WORKERS)
    assert alone(tmp_path)["step"] == STEPS


def test_a_worker_that_is_killed_stops_nothing(tmp_path: Path) -> None:
    policy = "ps:1"
    bodies: dict[int, list[Callable[[], Any]]] = {
        rank: [functools.partial(train, policy, tmp_path)] for rank in (0, 2, 3)
    }
    bodies[1] = [functools.partial(train, policy, tmp_path, dies_at=3)]
    outcomes = run(bodies, tmp_path, WORKERS + 1)
    told = [outcome.value for outcome in outcomes[:2]]
    assert outcomes[3].exit_code == -signal.SIGKILL
    assert [each.error for each in outcomes[:3]] == [None] * 3
    # The others compute its shares: of its last step, and of all after it.
    assert all_of([*told, [1, 2]]) == sorted(list(range(1, STEPS + 1)) * WORKERS)
    assert alone(tmp_path)["different"] < 1e-9


def values_of(bodies: list[Callable[[], Any]], folder: Path) -> list[Any]:
    outcomes = run({rank: [body] for rank, body in enumerate(bodies)}, folder, len(bodies))
    assert [each.error for each in outcomes] == [None] * len(bodies)
    return [each.value for each in outcomes]


def largest_difference(some: Values, others: Values) -> float:
    assert some.keys() == others.keys()
    return max(
        float((torch.tensor(some[name]) - torch.tensor(others[name])).abs().max()) for name in some
    )


def test_after_the_training_each_server_has_the_model_and_the_first_its_state(
    tmp_path: Path,
) -> None:
    read = functools.partial(train_and_read, "ps:2")
    told = values_of([read] * (WORKERS + 2), tmp_path)
    assert [bool(each["state"]) for each in told] == [False, False, False, True, False]
    (outcome,) = fork_all([parameters_alone])
    assert outcome.error is None, outcome.error
    for each in told[WORKERS:]:
        assert largest_difference(each["parameters"], outcome.value) < 1e-9
    state = {name: told[WORKERS]["state"][name] for name in outcome.value}
    assert largest_difference(state, outcome.value) < 1e-9


def parameters_alone() -> Values:
    """Those of one process after the same training."""
    model, _, _ = trained_alone()
    return {name: each.tolist() for name, each in model.named_parameters()}


def test_steps_are_taken_once_and_a_second_call_is_refused(tmp_path: Path) -> None:
    errors = values_of([train_twice] * 2, tmp_path)
    for error in errors:
        assert "training.steps() is called once" in error


def test_the_servers_use_the_rate_of_each_parameter_group(tmp_path: Path) -> None:
    rates = values_of([train_many_groups] * 2, tmp_path)
    assert rates == [[0.01 * number for number in range(24)]] * 2


def test_the_servers_state_is_resumed_from_its_checkpoint(tmp_path: Path) -> None:
    policy, ranks = "ps:2", WORKERS + 2
    first = functools.partial(train, policy, tmp_path, 4)
    outcomes = run({rank: [first] for rank in range(ranks)}, tmp_path, ranks)
    assert [each.error for each in outcomes] == [None] * ranks
    told = run_alike(policy, tmp_path, ranks)
    assert [computed for computed in told if computed] == [[5, 6]] * WORKERS
    assert alone(tmp_path)["different"] < 1e-9


def refused(policy: str) -> str:
    """The error of a rank of three."""
    os.environ |= {"RANK": "0", "WORLD_SIZE": "3"}
    with contextlib.suppress(KeyError):
        del os.environ["LOCKSTEP_RENDEZVOUS"]
    try:
        lockstep.shard(nn.Linear(2, 2), policy)
    except ValueError as error:
        return str(error)
    return ""


def test_a_server_that_is_no_rank_is_named_with_the_remedy() -> None:
    (outcome,) = fork_all([functools.partial(refused, "ps:1,servers=7")])
    assert outcome.error is None, outcome.error
    assert "server 7 is not among the ranks 0 to 2: name one of them" in outcome.value
