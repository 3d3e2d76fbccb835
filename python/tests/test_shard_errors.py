"""A wrong use of lockstep.shard raises an error of one line that says what to do."""

import copy
import functools
import re
from collections.abc import Callable

import pytest
import torch
from models import loss_of, net
from ranks import Crew
from torch import nn

import lockstep

RANKS = 4


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


def raises(what: str, act: Callable[[], object]) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError)) as caught:
        act()
    said = str(caught.value)
    assert re.search(what, said), said
    assert "\n" not in said.strip(), said


def refuse_to_shard(rank: int) -> None:
    model = net()
    layer = model.layers[0]
    raises(
        "unit layers.0 is listed twice: name it once",
        lambda: lockstep.shard(model, "zero3", blocks=[layer, layer]),
    )
    raises(
        "unit 1 of 1 is no part of the module",
        lambda: lockstep.shard(model, "zero3", blocks=[nn.Linear(2, 2)]),
    )
    raises(
        "unit layers.0.linear lies within unit layers.0: name one of them",
        lambda: lockstep.shard(model, "zero3", blocks=[layer, layer.linear]),
    )
    raises(
        "groups of 3 do not divide 4 ranks: use one of 1, 2, 4",
        lambda: lockstep.shard(model, "mics:3"),
    )
    raises("policy zero4: there are ddp, zero1", lambda: lockstep.shard(model, "zero4"))
    raises("none is named", lambda: lockstep.shard(nn.Linear(2, 2), "zero3"))
    lockstep.shard(model, "zero3", blocks=lambda each: each in set(model.layers))
    raises("sharded already: call lockstep.shard once", lambda: lockstep.shard(model, "zero3"))
    raises(
        "the module is not sharded: call lockstep.shard first", lambda: lockstep.state_dict(net())
    )
    raises("copy it before lockstep.shard", lambda: copy.deepcopy(model))


def test_a_module_that_cannot_be_sharded_so(crew: Crew) -> None:
    crew.run(refuse_to_shard)


def change_the_module(rank: int) -> None:
    x = torch.ones(2, 5, dtype=torch.float64)
    changes: dict[str, Callable[[nn.Module], object]] = {
        "has other parameters or submodules": lambda model: setattr(
            model, "head", nn.Linear(7, 3, dtype=torch.float64)
        ),
        "Layer has other parameters": lambda model: model.layers[0].register_parameter(
            "new", nn.Parameter(torch.ones(1))
        ),
        "head.weight was moved, cast or given other data": lambda model: setattr(
            model.head.weight, "data", torch.ones(3, 7, dtype=torch.float64)
        ),
        "head.bias was frozen after": lambda model: model.head.bias.requires_grad_(False),
    }
    for words, change in changes.items():
        model = lockstep.shard(net(), "zero3")
        change(model)
        raises(words, functools.partial(model.__call__, x))


def test_a_module_that_was_changed_after_sharding(crew: Crew) -> None:
    crew.run(change_the_module)


def read_what_is_not_there(rank: int) -> None:
    model = lockstep.shard(net(), "zero3")
    layer = model.layers[0]
    raises("has memory only while its block runs", lambda: layer.linear.weight.sum())
    raises("has memory only while its block runs", lambda: model.state_dict()["layers.0.scale"] + 1)
    raises(
        r"lockstep\.state_dict\(model\) gathers",
        lambda: torch.save(model.state_dict(), "/dev/null"),
    )
    raises(r"lockstep\.state_dict\(model\) gathers", lambda: repr(layer.linear.weight))
    loss_of(model, 0, 0, rank, RANKS).backward()
    raises(
        "clip by lockstep.clip_grad_norm_",
        lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    )
    raises("clip by lockstep.clip_grad_norm_", lambda: layer.scale.grad.sum())


def test_parameters_and_gradients_that_a_rank_does_not_have(crew: Crew) -> None:
    crew.run(read_what_is_not_there)


def misuse_the_loop(rank: int) -> None:
    model = lockstep.shard(net(), "mics:2")
    optimizer = torch.optim.AdamW(model.parameters())

    def backward() -> None:
        loss_of(model, 0, 0, rank, RANKS).backward()

    raises("without gradients: call loss.backward", optimizer.step)
    backward()
    raises("a second backward before optimizer.step", backward)


def drop_gradients(rank: int) -> None:
    """A step that is not taken is no error, if its gradients are dropped."""
    model = lockstep.shard(net(), "mics:2")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    for _ in range(2):
        loss_of(model, 0, 0, rank, RANKS).backward()
        norms.append(lockstep.clip_grad_norm_(model.parameters(), 1e9))
        optimizer.zero_grad()
    with lockstep.no_sync(model):
        loss_of(model, 1, 0, rank, RANKS).backward()
    optimizer.zero_grad()
    loss_of(model, 0, 0, rank, RANKS).backward()
    norms.append(lockstep.clip_grad_norm_(model.parameters(), 1e9))
    assert norms[0] == pytest.approx(norms[1], rel=1e-12)
    assert norms[0] == pytest.approx(norms[2], rel=1e-12)


def test_a_loop_that_cannot_be(crew: Crew) -> None:
    crew.run(misuse_the_loop)


def test_gradients_may_be_dropped(crew: Crew) -> None:
    crew.run(drop_gradients)


def use_wrong_optimizers(rank: int) -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, *closure: object) -> None:
        loss_of(model, 0, 0, rank, RANKS).backward()
        optimizer.step(*closure)

    plain = net()
    early = torch.optim.AdamW(plain.parameters())
    loss_of(plain, 0, 0).backward()
    early.step()
    early.zero_grad()
    model = lockstep.shard(plain, "zero1")
    raises(
        "has exp_avg of all of .*, from steps before lockstep.shard",
        lambda: step(model, early),
    )
    model = lockstep.shard(net(), "zero1")
    raises(
        "LBFGS cannot step parts of a model",
        lambda: step(model, torch.optim.LBFGS(model.parameters())),
    )
    model = lockstep.shard(net(), "zero1")
    raises(
        "call backward before",
        lambda: step(model, torch.optim.AdamW(model.parameters()), lambda: 0.0),
    )
    model = lockstep.shard(net(), "zero1")
    loss_of(model, 0, 0, rank, RANKS).backward()
    raises(
        "all parameters of one sharded model",
        lambda: lockstep.clip_grad_norm_(model.head.parameters(), 1.0),
    )
    with torch.device("meta"):
        model = type(net())()
    early = torch.optim.AdamW(model.parameters())
    lockstep.shard(model, "zero3", init=lambda module: None)
    raises("made before lockstep.shard", lambda: step(model, early))


def test_optimizers_that_cannot_step_slices(crew: Crew) -> None:
    crew.run(use_wrong_optimizers)


def step_under_no_sync(rank: int) -> None:
    model = lockstep.shard(net(), "zero2")
    optimizer = torch.optim.AdamW(model.parameters())
    with lockstep.no_sync(model):
        loss_of(model, 0, 0, rank, RANKS).backward()
    raises("last micro-step outside of it", optimizer.step)


def test_a_step_after_micro_steps_alone(crew: Crew) -> None:
    crew.run(step_under_no_sync)


def part_ways(rank: int) -> None:
    model = lockstep.shard(net(), "zero3")
    if rank == 1:
        model.layers = nn.ModuleList([model.layers[0], model.layers[2], model.layers[1]])
        model._lockstep._form = []  # only the engine notices
    raises(
        "do not run the same units in the same order: rank 0 gathers unit 1 .layers.1., "
        "rank 1 gathers unit 0 .layers.2.",
        lambda: loss_of(model, 0, 0, rank, RANKS).backward(),
    )


def test_ranks_that_run_blocks_in_another_order_are_told_which(crew: Crew) -> None:
    crew.run(part_ways)


def test_a_rank_that_nothing_connects_is_told_what_starts_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    raises(
        "start ranks by lockstep run, torchrun, mpirun or srun",
        lambda: lockstep.shard(net(), "ddp"),
    )
