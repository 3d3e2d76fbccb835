"""training_process.py FILE: scalars a second of lockstep.log and of SummaryWriter, as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

import lockstep

CALLS = 20_000
ROUNDS = 5


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
    Path(sys.argv[1]).write_text(json.dumps([statistics.median(ours), statistics.median(peer)]))


if __name__ == "__main__":
    main()
