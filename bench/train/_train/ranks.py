"""A contestant's ranks in Python, and their commands.

    python -m _train.ranks NAME POLICY BACKEND MICRO_STEPS SIZE RANKS HOST... SOCKET

Each answers "step" with when the step began and ended here, in seconds of CLOCK_MONOTONIC, and with
its mean loss; the contestant without communication adds the seconds of a forward and of the
update. "memory" is a step, too: its peak bytes, without those that it had when torch was loaded.
"""

from __future__ import annotations

import datetime
import importlib
import sys
import time
from collections.abc import Callable

import torch

# torch imports this late, for a second: once here is better than once in every rank.
import torch._dynamo
import torch.distributed as dist
from _contest.fork_ranks import fork_ranks, obey

from .contestants.alone import Alone
from .field import ALONE, Job, Trainer, contestant
from .model import micro_batches
from .peak import Peak, held_bytes

LIMIT = datetime.timedelta(seconds=300)


class Rank:
    def __init__(self, rank: int, job: Job, make_trainer: Callable[[Job], Trainer]) -> None:
        self._before = held_bytes()
        self._rank, self._job, self._trainer = rank, job, make_trainer(job)
        self._steps = 0

    def answer(self, line: str) -> str:
        if line.strip() == "step":
            return self._step()
        if line.strip() != "memory":
            raise ValueError(f"told to {line!r}")
        with Peak() as peak:
            self._step()
        return str(peak.bytes - self._before)

    def _step(self) -> str:
        job = self._job
        batches = micro_batches(job.size, self._steps, self._rank, job.micro_steps)
        self._steps += 1
        begin = time.monotonic()
        loss = self._trainer.step(batches)
        said = f"{begin:.9f} {time.monotonic():.9f} {loss:.9f}"
        if isinstance(self._trainer, Alone):
            said += f" {self._trainer.forward:.9f} {self._trainer.update:.9f}"
        return said


def job_of(words: list[str], hosts: int) -> Job:
    name, policy, backend, micro_steps, size, ranks = words
    parts = contestant(name).PARTS
    part = next(part for part in parts if part.policy == policy)
    return Job(name, part, backend, int(micro_steps), size, hosts, int(ranks) // hosts)


def main() -> int:
    words, hosts, socket = sys.argv[1:7], sys.argv[7:-1], sys.argv[-1]
    torch.set_num_threads(1)
    job = job_of(words, len(hosts))
    for module in job.part.imports:
        importlib.import_module(module)
    make_trainer = contestant(job.contestant).trainer

    def live(rank: int, meeting_place: str) -> None:
        if job.contestant != ALONE:
            store = dist.FileStore(meeting_place, job.ranks)
            dist.init_process_group(
                job.backend, store=store, rank=rank, world_size=job.ranks, timeout=LIMIT
            )
        obey(rank, socket, Rank(rank, job, make_trainer).answer)
        if job.contestant != ALONE:
            dist.destroy_process_group()

    return fork_ranks(job.ranks, hosts, live)


if __name__ == "__main__":
    sys.exit(main())
