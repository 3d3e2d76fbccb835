"""training_process.py FILE: scalars a second of lockstep.log and of SummaryWriter, and the
processor time of a call of each on the thread that calls, in microseconds, as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

import lockstep

CALLS = 20_000
ROUNDS = 5
BURSTS = 50
CALLS_OF_BURST = 200
PAUSE_SECONDS = 0.01  # in which other threads send what was logged


def microseconds(log: Callable[[int], None]) -> float:
    """The processor time of the calling thread for a call, the median of bursts."""
    taken = []
    for burst in range(BURSTS):
        begun = time.thread_time_ns()
        for step in range(burst * CALLS_OF_BURST, (burst + 1) * CALLS_OF_BURST):
            log(step)
        taken.append((time.thread_time_ns() - begun) / CALLS_OF_BURST)
        time.sleep(PAUSE_SECONDS)
    return statistics.median(taken) / 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ours, peer = [], []
        for turn in range(ROUNDS):
            steps = range(turn * CALLS, (turn + 1) * CALLS)
            begun = time.perf_counter()
            for step in steps:
                lockstep.log({"loss": 0.5}, step=step)
            ours.append(CALLS / (time.perf_counter() - begun))
            begun = time.perf_counter()
            for step in steps:
                writer.add_scalar("loss", 0.5, step)
            writer.flush()
            peer.append(CALLS / (time.perf_counter() - begun))
        rates = [statistics.median(ours), statistics.median(peer)]
        first = ROUNDS * CALLS
        calls = [
            microseconds(lambda step: lockstep.log({"loss": 0.5}, step=first + step)),
            microseconds(lambda step: writer.add_scalar("loss", 0.5, first + step)),
        ]
    Path(sys.argv[1]).write_text(json.dumps([*rates, *calls]))


if __name__ == "__main__":
    main()
