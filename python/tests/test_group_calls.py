"""Calls of a group besides its operations: time-outs, groups that merge, calls that it lacks."""

import datetime
import multiprocessing
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.distributed import distributed_c10d

SHORT = datetime.timedelta(milliseconds=300)
LONG = datetime.timedelta(seconds=20)


def waits_in_vain(rank: int, result: Any) -> str:
    """Rank 1 does not make the call of rank 0."""
    group = dist.new_group([0, 1], timeout=LONG)
    dist.barrier(group=group)
    distributed_c10d._set_pg_timeout(SHORT, group)
    if rank == 1:
        result.recv()
        return ""
    with pytest.raises(dist.DistBackendError, match="Timed out waiting: ") as caught:
        dist.barrier(group=group)
    result.send("over")
    return str(caught.value)


def test_a_groups_time_out_can_be_changed() -> None:
    ends = multiprocessing.Pipe()
    said = run_ranks(2, lambda rank: waits_in_vain(rank, ends[rank]))[0]
    assert "it waited 300ms for rank 1" in said


def merges(rank: int) -> tuple[int, int, float]:
    """Each rank alone at first, then both."""
    alone = [dist.new_group([other]) for other in range(2)][rank]
    store = dist.PrefixStore("merge", distributed_c10d._get_default_store())
    both = alone.merge_remote_group(store, 2, LONG)
    tensor = torch.full((4,), float(rank + 1))
    both.allreduce(tensor).wait()
    return both.rank(), both.size(), tensor[0].item()


def test_groups_merge() -> None:
    assert sorted(run_ranks(2, merges)) == [(0, 2, 3.0), (1, 2, 3.0)]


def refusal(rank: int) -> str:
    with pytest.raises(NotImplementedError) as caught:
        dist.group.WORLD._register_on_completion_hook(lambda info: None)
    return str(caught.value)


def test_a_call_that_the_backend_lacks_is_named_with_what_to_do() -> None:
    [said] = run_ranks(1, refusal)
    assert said.startswith("the backend lockstep does not implement _register_on_completion_hook: ")
    assert "wait for the handles of the calls" in said
    assert "--replace-backend" not in said


def test_in_a_program_that_names_another_backend_a_remedy_is_that_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCKSTEP_REPLACE_BACKEND", "gloo")
    [said] = run_ranks(1, refusal)
    assert said.splitlines()[0].endswith("or run the program without --replace-backend")
