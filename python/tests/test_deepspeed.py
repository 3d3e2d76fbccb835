"""The calls that DeepSpeed 0.18.9 makes on a CPU: of ZeRO-1 to ZeRO-3, and of MiCS."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor
from torch.distributed import distributed_c10d

SIZE = 4
SHARDS = [64, 10, 2000]  # elements of each parameter's shard


def expect_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def groups_of(rank: int, *divisions: list[list[int]]) -> list[dist.ProcessGroup]:
    """This rank's group of each division; all ranks make all groups, as torch requires."""
    found = []
    for division in divisions:
        made = [dist.new_group(members) for members in division]
        found += [group for group, members in zip(made, division, strict=True) if rank in members]
    return found


def parameters_are_gathered_from_all_ranks(rank: int) -> None:
    """ZeRO-3: a unit's shards lie in one buffer of each rank, and are gathered in place."""
    whole = torch.full((SIZE, 50), -1.0)
    whole[rank] = rank
    handle = dist.all_gather_into_tensor(
        whole.view(-1), whole.view(-1)[50 * rank :][:50], None, True
    )
    handle.wait()
    expect_equal(whole, torch.arange(4.0).reshape(4, 1).expand(4, 50))
    gradients = [torch.full((SIZE * size,), float(rank)) for size in SHARDS]
    by_owner = zip(*(each.chunk(SIZE) for each in gradients), strict=True)
    flat = torch.cat([part for owned in by_owner for part in owned])
    shard = torch.empty(sum(SHARDS))
    dist.reduce_scatter_tensor(shard, flat)
    expect_equal(shard, torch.full_like(shard, 6.0))


def gradients_are_reduced_to_the_rank_that_has_them(rank: int) -> None:
    """ZeRO-1 and ZeRO-2: slices of a bucket go to different ranks, parameters come back."""
    bucket = torch.full((SIZE * 30,), float(rank))
    for owner in range(SIZE):
        dist.reduce(bucket[30 * owner :][:30], owner)
    expect_equal(bucket[30 * rank :][:30], torch.full((30,), 6.0))
    parts = list(torch.full((SIZE * 30,), -1.0).chunk(SIZE))
    parts[rank].fill_(rank)
    dist.all_gather(parts, parts[rank])
    expect_equal(torch.cat(parts), torch.arange(4.0).repeat_interleave(30))


def shards_live_twice_as_mics_has_them(rank: int) -> None:
    """Parameters are divided within a half of the ranks, and each half has all of them."""
    half, pair = groups_of(rank, [[0, 1], [2, 3]], [[0, 2], [1, 3]])
    shards = [torch.full((size,), float(rank % 2)) for size in SHARDS]
    wholes = [torch.empty(2 * size) for size in SHARDS]
    distributed_c10d._all_gather_base_coalesced(wholes, shards, group=half, async_op=True).wait()
    for whole, size in zip(wholes, SHARDS, strict=True):
        expect_equal(whole, torch.tensor([0.0, 1.0]).repeat_interleave(size))
    # Gradients: summed and divided within the half, then summed over the halves.
    parts = [torch.empty(size) for size in SHARDS]
    for part, size in zip(parts, SHARDS, strict=True):
        dist.reduce_scatter_tensor(part, torch.full((2 * size,), float(rank)), group=half)
    dist.all_reduce_coalesced(parts, group=pair)
    for part in parts:
        expect_equal(part, torch.full_like(part, 0.0 + 1 + 2 + 3))


def mics_gathers_across_hosts_then_within(rank: int) -> None:
    """Ranks 0 and 1 are a host, 2 and 3 another; the result is in order of ranks, as required."""
    within, across = groups_of(rank, [[0, 1], [2, 3]], [[0, 2], [1, 3]])
    local, gather = rank % 2, distributed_c10d._all_gather_base_coalesced
    wholes = [torch.full((SIZE * size,), -1.0) for size in SHARDS]
    shards = [torch.full((size,), float(rank)) for size in SHARDS]
    firsts = [
        whole.narrow(0, local * 2 * size, 2 * size)
        for whole, size in zip(wholes, SHARDS, strict=True)
    ]
    gather(firsts, shards, group=across, async_op=False)
    outputs, inputs = [], []
    for whole, first, size in zip(wholes, firsts, SHARDS, strict=True):
        hosts = whole.view(2, 2, size)
        hosts[:, local] = first.clone().view(2, size)
        outputs += list(whole.chunk(2))
        inputs += [hosts[host, local] for host in range(2)]
    gather(outputs, inputs, group=within, async_op=True).wait()
    for whole, size in zip(wholes, SHARDS, strict=True):
        expect_equal(whole, torch.arange(4.0).repeat_interleave(size))


@pytest.mark.parametrize(
    "body",
    [
        parameters_are_gathered_from_all_ranks,
        gradients_are_reduced_to_the_rank_that_has_them,
        shards_live_twice_as_mics_has_them,
        mics_gathers_across_hosts_then_within,
    ],
)
def test_its_calls_are_carried_out(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)
