"""Ranks that diverge in a later step, in which no check precedes each transfer."""

import re
import time

import pytest
import torch
from models import loss_of, net
from ranks import run_ranks
from torch import nn

import lockstep

RANKS = 4
TIMEOUT = 8.0
# For errors that follow from other ranks' errors, and for a busy machine.
ALLOWANCE = 6.0


def part_ways_later(rank: int, policy: str, order: list[int]) -> tuple[str, float]:
    """The error that this rank gets when rank 1 runs its layers in another order, and the delay."""
    model = lockstep.shard(net(), policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number: int) -> None:
        loss_of(model, number, 0, rank, RANKS).backward()
        optimizer.step()
        optimizer.zero_grad()

    step(0)
    step(1)
    if rank == 1:
        model.layers = nn.ModuleList([model.layers[number] for number in order])
        model._lockstep._form = []  # only the engine notices
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        step(2)
    return str(caught.value), time.monotonic() - begin


@pytest.mark.parametrize("order", [[0, 2, 1], [0, 2]], ids=["swapped", "left_out"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_unit_and_the_rank_that_differs_are_named(
    hosts: int, backend: str, order: list[int]
) -> None:
    told = run_ranks(
        RANKS, part_ways_later, "zero3", order, hosts=hosts, backend=backend, timeout=TIMEOUT
    )
    for words, seconds in told:
        assert re.search("calls do not match|do not run the same units", words), words
        assert re.search(r"rank 1 (called|gathers) .*unit \d", words), words
        assert seconds < TIMEOUT + ALLOWANCE
