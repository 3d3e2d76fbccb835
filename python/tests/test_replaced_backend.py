"""Programs that name Gloo or NCCL, with LOCKSTEP_REPLACE_BACKEND."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from lockstep._torch import replace_backend

VARIABLE = "LOCKSTEP_REPLACE_BACKEND"


@pytest.fixture(autouse=True)
def patched_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch as `import torch` leaves it where the variable is set; each test sets its own value."""
    monkeypatch.setenv(VARIABLE, "gloo,nccl")
    with monkeypatch.context() as patches:
        for module, name in (
            (distributed_c10d, "_new_process_group_helper"),
            (dist, "is_nccl_available"),
        ):
            patches.setattr(module, name, getattr(module, name))  # to restore it afterwards
        replace_backend.patch_torch()
        yield


def made_backend(group: dist.ProcessGroup | None = None) -> str:
    """The backend that torch asks for the collectives of CPU tensors."""
    group = group or dist.group.WORLD
    assert group is not None
    return str(group._get_backend(torch.device("cpu")).name())


def sums(rank: int) -> tuple[str, str, str, float]:
    tensor = torch.full((1000,), float(rank + 1))
    dist.all_reduce(tensor)
    return dist.get_backend(), dist.get_backend_config(), made_backend(), tensor[0].item()


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ("gloo", "cpu:gloo,cuda:gloo"),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl"),
        ("nccl", "cuda:nccl"),
        ("undefined", "cpu:gloo"),  # torch's word for none
    ],
)
def test_the_groups_of_a_program_are_ours_and_keep_the_name_that_it_gave(
    given: str, config: str
) -> None:
    for outcome in run_ranks(2, sums, backend=given):
        assert outcome == (given, config, "lockstep", 3.0)


def makes_more_groups(rank: int) -> None:
    pair = dist.new_group([0, 1], backend="gloo", pg_options=object())
    default = dist.new_group([0, 1])
    for group in (pair, default):
        assert dist.get_backend(group) == "gloo"
        assert made_backend(group) == "lockstep"
    assert dist.new_group([1 - rank], backend="gloo") == dist.GroupMember.NON_GROUP_MEMBER
    gathered: list[int] = [0, 0]
    dist.all_gather_object(gathered, rank, group=pair)
    assert gathered == [0, 1]


def test_later_groups_of_the_program_are_ours_too() -> None:
    run_ranks(2, makes_more_groups, backend="gloo")


def divides_over_a_mesh(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    whole = torch.arange(16.0).view(4, 4)
    divided = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    torch.testing.assert_close(divided.full_tensor(), whole)
    assert made_backend(mesh.get_group("shards")) == "lockstep"


def test_the_groups_of_a_device_mesh_are_ours() -> None:
    run_ranks(4, divides_over_a_mesh, backend="gloo")


def names(rank: int) -> list[str]:
    group = dist.new_group(backend="gloo")
    return [dist.get_backend(), made_backend(), dist.get_backend(group), made_backend(group)]


def test_a_backend_that_is_not_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "nccl")
    assert run_ranks(1, names) == [["lockstep", "lockstep", "gloo", "gloo"]]


def test_a_refused_operation_names_a_remedy() -> None:
    def flips_bits_of_floats(rank: int) -> None:
        with pytest.raises(TypeError, match="does not reduce Float by BXOR: cast it, or gather it"):
            dist.all_reduce(torch.ones(3), dist.ReduceOp.BXOR)

    run_ranks(1, flips_bits_of_floats, backend="gloo")


def expect_refusal(backend: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_initialized()


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gloo,mpi")
    expect_refusal("gloo", "mpi is not a backend that can be replaced: set it to gloo, to nccl or")


def test_nccl_is_not_replaced_where_there_are_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    expect_refusal("nccl", "nccl is replaced only where there is no GPU, and this host has 8: ")


def test_another_torch_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def other_helper(backend: str) -> str:
        return backend

    monkeypatch.setattr(distributed_c10d, "_new_process_group_helper", other_helper)
    replace_backend.patch_torch()
    assert distributed_c10d._new_process_group_helper is other_helper
    assert "the program uses its own backend" in capsys.readouterr().err


PROGRAM = """
import torch, torch.distributed as dist
assert dist.is_nccl_available()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
print(dist.get_backend(), dist.group.WORLD._get_backend(torch.device("cpu")).name())
dist.destroy_process_group()
"""


def test_importing_torch_is_enough() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, VARIABLE: "nccl,gloo"},
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.stdout.split() == ["gloo", "lockstep"], done.stderr
    assert "lockstep: the program's groups use lockstep in place of nccl,gloo" in done.stderr
