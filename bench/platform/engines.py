"""Engines: a gang's start against sbatch and against plain Pods, and a daemon with 10,000 runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from _engines.pods import compare_with_plain_pods
from _engines.size import measure_size
from _engines.slurm import compare_with_sbatch

ROUNDS, SECONDS = 7, 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench engines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter times")
    parser.add_argument("--only", choices=("slurm", "kubernetes", "size"), help="one part of it")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("LOCKSTEP_URL", None)
    rounds = 2 if options.quick else ROUNDS
    if options.only in (None, "slurm"):
        compare_with_sbatch(rounds)
    if options.only in (None, "kubernetes"):
        compare_with_plain_pods(rounds)
    if options.only in (None, "size"):
        measure_size(10 if options.quick else SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
