"""Thousands of simulations with faults: no check fails, and two runs of a seed print equal bytes.

./dev bench seeds [--seeds 1..10000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockstep-sim"
TIMES = 2
SLOWEST_S = 1  # a seed takes milliseconds


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench seeds", description=__doc__)
    parser.add_argument("--seeds", default="1..10000", metavar="FROM..TO")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="the simulator to run")
    return parser.parse_args()


def count_of(seeds: str) -> int:
    first, last = map(int, seeds.split(".."))
    return last - first + 1


def main() -> int:
    options = read_options()
    begin = time.monotonic()
    deadline = begin + 60 + SLOWEST_S * count_of(options.seeds)
    runs = [
        subprocess.Popen(
            [options.program, "--seeds", options.seeds, "--digest"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(TIMES)
    ]
    said = []
    try:
        for run in runs:
            said.append(run.communicate(timeout=deadline - time.monotonic())[0])
    finally:
        for run in runs:
            run.kill()
    broken = [line for line in said[0].splitlines() if "VIOLATION" in line]
    for line in broken:
        print(line, file=sys.stderr)
    equal = len(set(said)) == 1
    row = {"bench": "seeds", "case": options.seeds, "unit": "s", "ours": time.monotonic() - begin}
    print(
        json.dumps(row | {"seeds": count_of(options.seeds), "broken": len(broken), "equal": equal})
    )
    if not equal:
        print("two runs of the same seeds differ", file=sys.stderr)
    return 0 if equal and all(run.returncode == 0 for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
