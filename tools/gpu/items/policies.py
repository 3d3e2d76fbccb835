"""Every policy computes on the device as on the CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch
from models import net, train_alone
from torch import Tensor

import lockstep
from gpu import devices
from gpu.ranks import run_ranks
from gpu.report import Seen, Skipped
from gpu.training import (
    EXACT,
    PARTS,
    WHOLE_GROUP,
    Failures,
    MakeOptimizer,
    adamw,
    largest_difference,
    sgd,
    state_of,
    train,
)

RANK, RANKS = 3, 8  # of the lone rank
RECIPES: dict[str, tuple[MakeOptimizer, int, float | None]] = {
    "sgd, three micro-steps, clipped": (sgd, 3, 0.1),
    "adamw": (adamw, 1, None),
}


def train_lone_rank(kind: str, policy: str, recipe: str) -> dict[str, Tensor]:
    """One rank of a world whose other ranks hold what it holds (backends.cc)."""
    make, parts, clip = RECIPES[recipe]
    with devices.group(kind, "lone_rank", RANKS, RANK):
        model = lockstep.shard(net(devices.device_of(kind)), policy)
        optimizer = make(model.parameters())
        train(model, optimizer, parts=parts, clip=clip, rank=RANK, ranks=RANKS)
        return state_of(model)


def train_by_every_policy(kind: str) -> Seen:
    """One rank of eight, over a group with a stream of its own that never makes the host wait."""
    devices.use(kind)
    failures, worst = Failures(), [0.0]

    def compare(policy: str, recipe: str) -> None:
        here = train_lone_rank(kind, policy, recipe)
        difference = largest_difference(here, train_lone_rank("cpu", policy, recipe))
        worst[0] = max(worst[0], difference)
        assert difference < EXACT, f"differs by {difference:.1e} from the CPU"

    for policy in (*WHOLE_GROUP, *PARTS):
        for recipe in RECIPES:
            act = functools.partial(compare, policy, recipe)
            failures.attempt(f"{policy} ({recipe})", act)
    failures.expect_none()
    count = len(WHOLE_GROUP) + len(PARTS)
    return Seen(f"{count} policies differ by at most {worst[0]:.1e} from the CPU")


@contextlib.contextmanager
def late_stream(device: torch.device) -> Iterator[None]:
    """A stream of the program's own, behind work that is not done when it is left."""
    devices.synchronize(device)
    if device.type == "cuda":
        devices.queue_sleep(device, 0.05)
    with torch.Stream(device=device):
        if device.type == "cuda":
            devices.queue_sleep(device, 0.05)
        yield
    devices.synchronize(device)


def train_under_a_stream_of_its_own(kind: str) -> Seen:
    """Buffers that one stream releases and another takes must not be overwritten too early."""
    if kind == "cpu":
        raise Skipped("the CPU has no streams")
    device = devices.use(kind)
    worst = 0.0
    for policy in ("ddp", "zero3", "mics:2", "zero3+recompute"):
        expected = train_lone_rank("cpu", policy, "adamw")
        with late_stream(device):
            here = train_lone_rank(kind, policy, "adamw")
        difference = largest_difference(here, expected)
        assert difference < EXACT, f"{policy} differs by {difference:.1e} from the CPU"
        worst = max(worst, difference)
    return Seen(f"4 policies differ by at most {worst:.1e} from the CPU")


def train_ranks(rank: int, device: torch.device, ranks: int, policies: tuple[str, ...]) -> float:
    """In each rank: the largest difference to a training by one process on the CPU."""
    worst = 0.0
    for recipe, (make, parts, clip) in RECIPES.items():
        alone = net()
        train_alone(alone, make(alone.parameters()), range(3), parts, clip)
        for policy in policies:
            model = lockstep.shard(net(device), policy)
            train(model, make(model.parameters()), parts=parts, clip=clip, rank=rank, ranks=ranks)
            whole = lockstep.state_dict(model)
            if rank > 0:
                continue
            difference = largest_difference(whole, alone.state_dict())
            assert difference < EXACT, f"{policy} ({recipe}) differs by {difference:.1e}"
            worst = max(worst, difference)
    return worst


def train_on_one_device(kind: str, ranks: int, policies: tuple[str, ...]) -> Seen:
    worst = max(run_ranks(kind, "staged", ranks, train_ranks, ranks, policies))
    return Seen(f"{len(policies)} policies differ by at most {worst:.1e} from one process")


def train_two_ranks_on_one_device(kind: str) -> Seen:
    """NCCL refuses two ranks on a GPU, so Gloo moves the data, through main memory."""
    return train_on_one_device(kind, 2, WHOLE_GROUP)


def train_four_ranks_on_one_device(kind: str) -> Seen:
    """The same, with policies that divide the ranks into groups."""
    return train_on_one_device(kind, 4, PARTS)
