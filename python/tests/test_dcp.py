"""torch.distributed.checkpoint: to and from plain torch, FSDP2, and every other division."""

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from fsdp2 import Plain, adamw, fsdp2, sgd, small, train
from models import IN, MakeOptimizer, net, train_alone
from ranks import Crew, run_ranks
from torch import nn

import lockstep
from lockstep._interop.slice import Slice, boxes_of


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


def test_boxes_hold_each_element_once_and_in_its_order() -> None:
    for shape in [(), (7,), (3, 5), (3, 1, 4), (2, 3, 2, 2), (0, 3)]:
        numbers = torch.arange(math.prod(shape)).view(shape)
        for begin, end in itertools.combinations_with_replacement(range(numbers.numel() + 1), 2):
            found = [
                numbers[tuple(slice(o, o + n) for o, n in zip(*box, strict=True))].flatten()
                for box in boxes_of(shape, begin, end)
            ]
            elements = torch.cat(found).tolist() if found else []
            assert elements == list(range(begin, end)), (shape, begin, end)


def test_a_slice_of_a_matrix_has_at_most_three_boxes_and_refuses_arithmetic() -> None:
    assert max(len(list(boxes_of((9, 5), b, e))) for b in range(45) for e in range(b, 46)) == 3
    part = Slice(torch.ones(3), (9, 5), 4)
    with pytest.raises(ValueError, match="has whole tensors"):
        part + 1


def expect_alone(model: nn.Module, make: MakeOptimizer, steps: int) -> None:
    """The whole state of the model is that of one process that never stopped."""
    alone = net()
    train_alone(alone, make(alone.parameters()), range(steps))
    values = lockstep.state_dict(model)
    for name, value in alone.state_dict().items():
        if values and not name.endswith("runs"):
            torch.testing.assert_close(values[name], value, rtol=1e-10, atol=1e-10)


def link_of_chain(rank: int, ranks: int, policy: str, make: Any, folder: str, step: int) -> None:
    """Loads what the link before has saved, takes a step, and saves."""
    model = lockstep.shard(net(), policy)
    optimizer = make(model.parameters())
    state = {"app": lockstep.Stateful(model, optimizer)}
    if step > 0:
        dcp.load(state, checkpoint_id=f"{folder}/{step}")
    train(model, optimizer, range(step, step + 1), rank, ranks)
    dcp.save(state, checkpoint_id=f"{folder}/{step + 1}")
    expect_alone(model, make, step + 1)


@pytest.mark.parametrize("make", [adamw, sgd])
def test_every_division_goes_on_from_every_other(make: Any, backend: str, tmp_path: Path) -> None:
    chain = [(4, "zero3"), (2, "mics:2"), (4, "mics:2+opt"), (1, "ddp"), (3, "zero1")]
    for step, (ranks, policy) in enumerate(chain):
        folder = str(tmp_path)
        run_ranks(ranks, link_of_chain, ranks, policy, make, folder, step, backend=backend)


def to_and_from_fsdp2(rank: int, folder: str) -> None:
    theirs, optimizer = fsdp2()
    train(theirs, optimizer, range(2), rank, 4)
    dcp.save({"app": Plain(theirs, optimizer)}, checkpoint_id=f"{folder}/fsdp2")
    train(theirs, optimizer, range(2, 4), rank, 4)

    ours = lockstep.shard(small(), "mics:2")
    mine = adamw(ours.parameters())
    dcp.load({"app": lockstep.Stateful(ours, mine)}, checkpoint_id=f"{folder}/fsdp2")
    train(ours, mine, range(2, 3), rank, 4)
    saved = dcp.async_save(
        {"app": lockstep.Stateful(ours, mine)},
        checkpoint_id=f"{folder}/lockstep",
        process_group=dist.new_group(),  # its thread must not use the training's at the same time
    )
    train(ours, mine, range(3, 4), rank, 4)
    saved.result(20)

    again, other = fsdp2()
    dcp.load({"app": Plain(again, other)}, checkpoint_id=f"{folder}/lockstep")
    train(again, other, range(3, 4), rank, 4)
    whole = lockstep.state_dict(ours)
    for name, value in theirs.named_parameters():
        expected = value.full_tensor()
        loaded = dict(again.named_parameters())[name].full_tensor()
        torch.testing.assert_close(loaded, expected, rtol=1e-10, atol=1e-10)
        if rank == 0:
            torch.testing.assert_close(whole[name], expected, rtol=1e-10, atol=1e-10)


def test_checkpoints_move_between_fsdp2_and_lockstep(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(to_and_from_fsdp2, folder=str(tmp_path)))


def from_16_bits(rank: int, folder: str) -> None:
    """Masters are saved in 32 bits, and loaded by a model of 16 bits of plain torch."""
    ours = lockstep.shard(small().bfloat16(), "zero3")
    optimizer = adamw(ours.parameters())
    loss = ours(torch.ones(2, IN, dtype=torch.bfloat16)).sum()
    loss.backward()
    optimizer.step()
    dcp.save({"app": lockstep.Stateful(ours, optimizer)}, checkpoint_id=folder)
    plain = small().bfloat16()
    state = {"app": {"model": plain.state_dict()}}
    dcp.load(state, checkpoint_id=folder)
    whole = lockstep.state_dict(ours)
    if rank == 0:
        for name, value in plain.state_dict().items():
            torch.testing.assert_close(value, whole[name], rtol=0, atol=0)


def test_a_model_of_16_bits_is_loaded_by_plain_torch(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(from_16_bits, folder=str(tmp_path)))


def keep_parts_only(rank: int) -> None:
    """A rank gives the elements that it owns to a save, and no more."""
    model = lockstep.shard(nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))), "zero3")
    optimizer = adamw(model.parameters())
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    state = lockstep.Stateful(model, optimizer).state_dict()
    moments = [each for one in state["optim"]["state"].values() for each in one.values()]
    for given, most in [(state["model"].values(), 1), (moments, 3)]:
        held = sum(each.values.numel() for each in given if isinstance(each, Slice))
        whole = 4 * 64 * 65 * most
        assert 0 < held <= whole // 4 + 64 * most, (held, whole)


def test_no_rank_has_more_than_its_part(crew: Crew) -> None:
    crew.run(keep_parts_only)
