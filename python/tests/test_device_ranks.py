"""Ranks that train on devices, over groups that behave as NCCL's do.

They are forked: this process itself uses no device.
"""

import pytest
import simulated_device
import torch
import torch.distributed as dist
from ranks import run_ranks


def reduce(rank: int) -> float:
    torch.simulated.set_device(rank)
    ones = torch.full((3,), float(rank + 1), device="simulated")
    dist.all_reduce(ones)
    return float(ones.sum())


@pytest.mark.parametrize(
    "backend", [simulated_device.BACKEND, f"cpu:gloo,simulated:{simulated_device.BACKEND}"]
)
def test_ranks_reduce_over_the_backend_for_it(backend: str) -> None:
    assert run_ranks(2, reduce, backend=backend) == [9, 9]
