"""A large group on this machine: its ranks meet, all-reduce with few descriptors, and lose one.

./dev bench group [--ranks N] [--quick]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ.get("LOCKSTEP_BUILD", Path(__file__).resolve().parents[2] / "build"))

MEET_BAR = 20.0  # seconds
DESCRIPTORS_BAR = 64
TOLD_BAR = 1000.0  # milliseconds from a rank's death until all others have their error


def row(case: str, ranks: int, unit: str, ours: float, bar: float | None = None) -> None:
    """A result; `bar` is the largest value that is good enough."""
    result = {"bench": "group", "case": case, "ranks": ranks, "unit": unit, "ours": ours}
    if bar is not None:
        result |= {"limit": bar, "ratio": bar / ours, "bar": 1.0}
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--quick", action="store_true", help="a smoke test: 128 ranks")
    chosen = parser.parse_args()
    ranks = 128 if chosen.quick else chosen.ranks
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the rendezvous needs one a rank
    program = subprocess.run(
        [BUILD / "bin" / "bench_group", str(ranks)],
        env=os.environ | {"LOCKSTEP_LOG": "warning"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if program.returncode:
        sys.exit("the ranks failed; the output above says why")
    words = program.stdout.split()
    got = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    row("until all ranks have met", ranks, "s", got["met"], MEET_BAR)
    row("an all-reduce of 8 bytes", ranks, "us", got["reduced"])
    row("most descriptors of a rank", ranks, "descriptors", got["descriptors"], DESCRIPTORS_BAR)
    row("from a rank's death until all others know", ranks, "ms", got["told"], TOLD_BAR)
    row("different reasons on these ranks", ranks, "reasons", got["errors"], 1.0)


if __name__ == "__main__":
    main()
