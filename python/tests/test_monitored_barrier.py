"""monitored_barrier: its error names the ranks that did not come, on all ranks that did."""

import datetime

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

SIZE = 4
SHORT = datetime.timedelta(milliseconds=200)
LATE = (1, 3)


def ranks_come_late(rank: int, every_rank: bool) -> list[str]:
    """The errors of a barrier that ranks 1 and 3 enter only after the others have given up."""
    others = dist.new_group(backend="gloo")
    dist.monitored_barrier()
    errors = []
    if rank in LATE:
        dist.barrier(group=others)
    with pytest.raises(dist.DistBackendError) as raised:
        dist.monitored_barrier(timeout=SHORT, wait_all_ranks=every_rank)
    errors.append(str(raised.value).splitlines()[0])
    if rank not in LATE:
        dist.barrier(group=others)
    # The group is usable, and in step.
    dist.monitored_barrier(wait_all_ranks=True)
    total = torch.ones(3)
    dist.all_reduce(total)
    assert total[0].item() == SIZE
    return errors


@pytest.mark.parametrize(
    ("every_rank", "late"),
    [(False, "Rank 1 failed to pass monitoredBarrier"), (True, "Ranks 1, 3 failed to pass")],
)
def test_its_error_names_the_late_ranks_and_the_group_stays_usable(
    every_rank: bool, late: str, hosts: int
) -> None:
    for rank, errors in enumerate(run_ranks(SIZE, ranks_come_late, every_rank, hosts=hosts)):
        assert late in errors[0]
        entered = "timed out in" if rank == 0 else "successfully reached"
        assert errors[0].startswith(f"Rank {rank} {entered} monitoredBarrier")


def rank_0_does_not_come(rank: int) -> str:
    others = dist.new_group(backend="gloo")
    error = ""
    if rank != 0:
        with pytest.raises(dist.DistBackendError) as raised:
            dist.monitored_barrier(timeout=SHORT)
        error = str(raised.value)
    dist.barrier(group=others)
    return error


def test_without_rank_0_the_others_name_it() -> None:
    for error in run_ranks(3, rank_0_does_not_come)[1:]:
        assert "Rank 0 failed to pass monitoredBarrier" in error


def a_rank_is_not_in_the_group(rank: int) -> None:
    pair = dist.new_group([0, 1])
    dist.monitored_barrier(pair)
    gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(gloo, timeout=datetime.timedelta(seconds=10))


def test_sub_groups_and_other_backends_have_theirs() -> None:
    run_ranks(3, a_rank_is_not_in_the_group)
