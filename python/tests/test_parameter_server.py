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


def train_alone(folder: Path) -> Values:
    """The values of the last checkpoint, and those of one process by the same samples."""
    model = lockstep.shard(net(torch.device("cpu")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    sampler = lockstep.Sampler(SAMPLES, BATCH, seed=3)
    for _ in range(STEPS):
        mean_loss(model, sampler.next()).backward()
        optimizer.step()
        optimizer.zero_grad()
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
