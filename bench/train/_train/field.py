"""The contestants and their tasks: model sizes, policies, and the modules in contestants/.

A contestant is one file there. It has PARTS, each a policy and the backends over which it takes
part, and

    def trainer(job: Job) -> Trainer

which each rank calls once, when torch.distributed is initialized. If it is a program instead, it
is started as `PROGRAM POLICY BACKEND MICRO_STEPS SIZE RANKS HOST... SOCKET`, forks its ranks and
answers as ranks.py says.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

ROWS = 4  # of a micro-batch, on each rank


@dataclass(frozen=True)
class Size:
    """A model of blocks Linear(width, inner), GELU, Linear(inner, width), of float32."""

    blocks: int
    width: int
    inner: int

    @property
    def bytes(self) -> int:
        return 4 * self.blocks * (2 * self.width * self.inner + self.inner + self.width)


SIZES = {
    "large": Size(8, 1024, 4096),
    "medium": Size(8, 384, 1536),
    "small": Size(4, 256, 1024),
    "tiny": Size(2, 64, 256),
}

# The sharding of each policy, by the engine's names.
POLICIES = {
    "mics": "everything is divided within a host, and each host has everything",
    "ddp": "every rank has everything",
    "zero3": "everything is divided among all ranks",
}


@dataclass(frozen=True)
class Part:
    policy: str
    backends: tuple[str, ...]
    program: str | None = None  # in build/bin
    imports: tuple[str, ...] = ()  # what takes long to import: once, before the ranks are forked
    packages: bool = False  # needs what train-requirements.txt names


@dataclass(frozen=True)
class Job:
    """The task of one contestant, as sent to its ranks."""

    contestant: str  # the file's name
    part: Part
    backend: str
    micro_steps: int
    size: str
    hosts: int
    ranks_a_host: int
    slower: int = 0  # the wire so many times slower than gathers inside a host, where that is set
    pad: float = 0.0  # seconds that each block sleeps in backward; half as long in forward

    @property
    def name(self) -> str:
        name = f"{self.part.policy}/{self.contestant}/{self.backend}/{self.micro_steps}"
        name += f"/{self.slower}x" if self.slower else ""
        return f"{name}/padded" if self.pad else name

    @property
    def policy(self) -> str:
        return self.part.policy

    @property
    def ranks(self) -> int:
        return self.hosts * self.ranks_a_host

    @property
    def shard_ranks(self) -> int:
        """The number of ranks that share one copy of the model."""
        return {"ddp": 1, "zero3": self.ranks, "mics": self.ranks_a_host}[self.policy]


class Trainer(Protocol):
    """One rank's model and optimizer."""

    def step(self, batches: Sequence[Any]) -> float:
        """Trains on the micro-batches by one optimizer step; the mean of their losses, here.

        A micro-batch is inputs and targets; gradients are means over all ranks and micro-batches.
        """


# The variable with the pad of a job.
PAD_SECONDS = "LOCKSTEP_BENCH_PAD_SECONDS"
# Our own engine, which should be faster than all others.
ENGINE = "engine"
# The computation of all contestants without communication.
ALONE = "alone"


def contestant(name: str) -> Any:
    """The file of that name in contestants/."""
    return importlib.import_module(f"_train.contestants.{name}")


def contestants() -> list[str]:
    """The names of all but `alone`."""
    folder = Path(__file__).resolve().parent / "contestants"
    return sorted(path.stem for path in folder.glob("[a-z]*.py") if path.stem != ALONE)


def jobs(
    policy: str, micro_steps: int, size: str, hosts: int, ranks_a_host: int, rows: Sequence[str]
) -> list[Job]:
    """All jobs of the policy that match one of the patterns, such as `mics/*/lockstep/1`."""
    found = [
        Job(name, part, backend, micro_steps, size, hosts, ranks_a_host)
        for name in contestants()
        for part in contestant(name).PARTS
        for backend in part.backends
        if part.policy == policy
    ]
    return [job for job in found if matches(job, rows)]


def matches(job: Job, rows: Sequence[str]) -> bool:
    """True if it matches one of the rows, and none of those with a minus."""
    if any(fnmatch(job.name, pattern[1:]) for pattern in rows if pattern.startswith("-")):
        return False
    return any(fnmatch(job.name, pattern) for pattern in rows)


def alone(example: Job) -> Job:
    """The same without communication."""
    part = Part(example.policy, ("none",))
    return replace(example, contestant=ALONE, backend="none", part=part, slower=0)
