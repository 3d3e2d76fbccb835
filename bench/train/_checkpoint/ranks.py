"""A saver's ranks, and their commands.

    python -m _checkpoint.ranks NAME SIZE RANKS FOLDER SOCKET

    save STEP            when it began, when the training could have gone on, when all was durable
    stall STEP           when it began, and the seconds by which it delayed a training step; ours
    train STEPS ROWS     when the first step began and the last ended; savers with a trainer
    train STEPS ROWS N   the same with a save N after the first step, which ends too

in seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import datetime
import sys
import time
from pathlib import Path

import torch

# torch imports this late, for a second: once here is better than once in every rank.
import torch._dynamo
import torch.distributed as dist
from _contest.fork_ranks import fork_ranks, obey

from .savers import SAVERS, Engine, Saver

LIMIT = datetime.timedelta(seconds=300)


class Rank:
    def __init__(self, saver: Saver) -> None:
        self._saver = saver

    def answer(self, line: str) -> str:
        what, *numbers = line.split()
        begin = time.monotonic()
        if what == "save":
            moments = [*self._saver.save(int(numbers[0]))]
        elif what == "stall" and isinstance(self._saver, Engine):
            moments = [self._saver.stall(int(numbers[0]))]
        elif what == "train" and isinstance(self._saver, Engine):
            moments = [_train(self._saver, *map(int, numbers))]
        else:
            raise ValueError(f"told to {line!r}")
        return " ".join(f"{each:.9f}" for each in (begin, *moments))


def _train(saver: Engine, steps: int, rows: int, save: int | None = None) -> float:
    saver.training.steps(1, rows)
    if save is not None:
        saver.begin(save)
    saver.training.steps(steps - 1, rows)
    saver.finish()  # which is done by now
    return time.monotonic()


def main() -> int:
    name, size, ranks, folder, socket = sys.argv[1:]
    torch.set_num_threads(1)
    saver = SAVERS[name]

    def live(rank: int, meeting_place: str) -> None:
        store = dist.FileStore(meeting_place, int(ranks))
        dist.init_process_group(
            saver.backend or "gloo", store=store, rank=rank, world_size=int(ranks), timeout=LIMIT
        )
        obey(rank, socket, Rank(saver(size, Path(folder))).answer)
        dist.destroy_process_group()

    return fork_ranks(int(ranks), [], live)


if __name__ == "__main__":
    sys.exit(main())
