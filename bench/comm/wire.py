"""All-reduce between hosts with shaped wires: Lockstep, Gloo and Open MPI over TCP, and iperf3.

The hosts are network namespaces of this machine (_contest/network.py), so it needs root. Hosts are
told apart by their ids, because memory crosses namespaces.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from _contest import peers
from _contest.arguments import Grid, grid_in, layouts, parser_of
from _contest.between_hosts import BOUNDED, PEERS, SLOW, Layout, entry, flat_ring, race
from _contest.contest import BUILD, say, warn_if_loaded
from _contest.contestant import Failed
from _contest.network import Unavailable
from _contest.rounds import Pace
from _contest.rows import KIB, MIB, PATHS

SIZES = [8, 64, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
FULL = Grid([2, 4], [1, 2], ["1gbit", "10gbit"], SIZES, Pace(7, 0.05, SLOW))
QUICK = Grid([2], [1], ["1gbit"], [8, 16 * KIB, MIB], Pace(2, 0.01, SLOW))


def read_arguments() -> tuple[argparse.Namespace, Grid]:
    parser = parser_of(__doc__)
    parser.add_argument("--paths", default="zero-copy", help=f"of {', '.join(PATHS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}; or none")
    given = parser.parse_args()
    given.paths = given.paths.split(",")
    given.peers = [] if given.peers == "none" else given.peers.split(",")
    for what, known in (("paths", PATHS), ("peers", PEERS)):
        if unknown := set(getattr(given, what)) - set(known):
            parser.error(f"--{what}: there is no {', '.join(sorted(unknown))}")
    return given, grid_in(parser, given, FULL, QUICK)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and contestants go then too
    given, grid = read_arguments()
    try:
        if max(grid.sizes) >= BOUNDED and shutil.which("iperf3") is None:
            peers.install(say)
        names = peers.available(given.peers, BUILD, say)
        warn_if_loaded()
        for layout in layouts(grid):
            if layout.rate == "10gbit" and layout.hosts > 2:
                say("10gbit with more than two hosts is left out: iperf3 alone fills two cores")
            else:
                hold(layout, given.paths, names, grid)
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


def hold(layout: Layout, paths: list[str], names: list[str], grid: Grid) -> None:
    with tempfile.TemporaryDirectory(prefix="lockstep-wire-") as folder:
        place = Path(folder)
        entries = [entry(name, layout, BUILD, place) for name in (*paths, *names)]
        if layout.ranks_a_host > 1:
            entries.append(flat_ring(layout, BUILD))
        for row in race(layout, paths, entries, grid.sizes, grid.pace, place, say):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
