"""State as whole tensors and as DTensors, from FSDP2 and to it."""

import functools
import math
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from fsdp2 import Plain, adamw, fsdp2, sgd, small, train
from ranks import Crew
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import lockstep
from lockstep._interop.exchange import exchange, rows_of

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


def exchange_all(rank: int) -> None:
    numbers = torch.arange(60.0)
    whole = [(0, 60)] * 4
    rows = [rows_of((7, 5), each, 4) for each in range(4)]
    assert rows == [(0, 10), (10, 20), (20, 30), (30, 35)]
    replicas = [(0, 23), (23, 60), (0, 23), (23, 60)]
    reverse = [(45, 60), (30, 45), (15, 30), (0, 15)]
    on_one = [(0, 0), (0, 60), (0, 0), (0, 0)]
    for have in (whole, replicas, reverse, on_one):
        for want in (whole, rows, replicas, reverse, on_one):
            begin, end = have[rank]
            found = exchange(numbers[begin:end], have, want, dist.group.WORLD)
            assert found.tolist() == list(range(*want[rank])), (have, want)


def test_elements_go_from_any_division_to_any_other(crew: Crew) -> None:
    crew.run(exchange_all)


def lockstep_model(policy: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = lockstep.shard(small(), policy)
    return model, adamw(model.parameters())


def expect_equal(ours: nn.Module, theirs: nn.Module, rank: int) -> None:
    values = lockstep.state_dict(ours)
    for name, value in theirs.state_dict().items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        if rank == 0 and "running" not in name:
            torch.testing.assert_close(values[name], whole, **CLOSE)


def give_to_fsdp2(rank: int) -> None:
    ours, mine = lockstep_model("mics:2")
    train(ours, mine, range(2), rank, 4)
    model = lockstep.state_dict(ours, form="dtensor")
    optimizer = lockstep.optimizer_state_dict(ours, mine, form="dtensor")
    theirs, other = fsdp2()
    layouts = {name: each.to_local().shape for name, each in theirs.named_parameters()}
    assert {name: model[name].to_local().shape for name in layouts} == layouts
    set_model_state_dict(theirs, model)
    set_optimizer_state_dict(theirs, other, optimizer)
    train(ours, mine, range(2, 4), rank, 4)
    train(theirs, other, range(2, 4), rank, 4)
    expect_equal(ours, theirs, rank)


def test_fsdp2_goes_on_from_dtensors_of_ours(crew: Crew) -> None:
    crew.run(give_to_fsdp2)


def take_from_fsdp2(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    theirs = fully_shard(small(), mesh=mesh)
    other = adamw(theirs.parameters())
    train(theirs, other, range(2), rank, 4)
    ours, mine = lockstep_model("zero3")
    lockstep.load_state_dict(ours, get_model_state_dict(theirs))
    lockstep.load_optimizer_state_dict(ours, mine, get_optimizer_state_dict(theirs, other))
    train(ours, mine, range(2, 4), rank, 4)
    train(theirs, other, range(2, 4), rank, 4)
    expect_equal(ours, theirs, rank)


def test_ours_goes_on_from_dtensors_of_a_hybrid_sharded_model(crew: Crew) -> None:
    crew.run(take_from_fsdp2)


def whole_in_and_out(rank: int) -> None:
    """As torch's get_optimizer_state_dict returns it with full_state_dict and cpu_offload."""
    theirs, other = fsdp2()
    train(theirs, other, range(2), rank, 4)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    expected = get_optimizer_state_dict(theirs, other, options=options)
    ours, mine = lockstep_model("mics:2+opt")
    train(ours, mine, range(2), rank, 4)
    shared = [lockstep.optimizer_state_dict(ours, mine), lockstep.state_dict(ours)]
    if rank == 0:
        torch.testing.assert_close(shared[0]["state"], expected["state"], **CLOSE)
        assert shared[0]["param_groups"] == expected["param_groups"]
    else:
        assert shared == [{}, {}]
    dist.broadcast_object_list(shared)
    again, fresh = lockstep_model("zero2")
    lockstep.load_optimizer_state_dict(again, fresh, shared[0])
    lockstep.load_state_dict(again, shared[1])
    train(ours, mine, range(2, 4), rank, 4)
    train(again, fresh, range(2, 4), rank, 4)
    first, second = lockstep.state_dict(ours), lockstep.state_dict(again)
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, **CLOSE)


def test_whole_state_is_as_torch_has_it(crew: Crew) -> None:
    crew.run(whole_in_and_out)


def before_a_step(rank: int) -> None:
    model = lockstep.shard(small(), "zero3")
    optimizer = sgd(model.parameters())
    state = lockstep.optimizer_state_dict(model, optimizer, form="dtensor")["state"]
    assert all(math.prod(each["momentum_buffer"].shape) > 0 for each in state.values())
    with pytest.raises(ValueError, match="must be"):
        lockstep.state_dict(model, form="shards")


def test_an_optimizer_that_has_not_stepped_has_new_state(crew: Crew) -> None:
    crew.run(before_a_step)


def torchs_functions(rank: int, folder: str) -> None:
    """A program for FSDP2 saves and resumes a model of ours unchanged."""
    ours, mine = lockstep_model("mics:2")
    train(ours, mine, range(2), rank, 4)
    dcp.save({"app": Plain(ours, mine)}, checkpoint_id=folder)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = get_model_state_dict(ours, options=options)
    moments = get_optimizer_state_dict(ours, mine, options=options)
    expected = lockstep.state_dict(ours), lockstep.optimizer_state_dict(ours, mine)
    if rank == 0:
        torch.testing.assert_close(whole, dict(expected[0]), rtol=0, atol=0)
        torch.testing.assert_close(moments["state"], expected[1]["state"], rtol=0, atol=0)
    again, fresh = lockstep_model("zero3")
    dcp.load({"app": Plain(again, fresh)}, checkpoint_id=folder)
    train(ours, mine, range(2, 4), rank, 4)
    train(again, fresh, range(2, 4), rank, 4)
    first, second = lockstep.state_dict(ours), lockstep.state_dict(again)
    for name, value in first.items():
        if "running" in name:  # which each rank has of its own data
            continue
        torch.testing.assert_close(second[name], value, **CLOSE)


def test_torchs_own_functions_work_for_a_sharded_model(crew: Crew, tmp_path: Path) -> None:
    crew.run(functools.partial(torchs_functions, folder=str(tmp_path)))
