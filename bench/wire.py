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
from _contest.contest import BUILD, look_around, numbers_in, say, sizes_in
from _contest.contestant import Failed
from _contest.network import RATES, Network, Unavailable
from _contest.rounds import Pace
from _contest.rows import KIB, MIB, PATHS
from _contest.wired import BOUNDED, PEERS, Layout, entry, race

SIZES = [8, 64, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
QUICK_SIZES = [8, 16 * KIB, MIB]

# A flat ring of four ranks takes a second for 64 MiB on a wire of 1 Gbit/s.
SLOW = 4.0
FULL_PACE = Pace(rounds=7, seconds=0.05, slow=SLOW)
QUICK_PACE = Pace(rounds=2, seconds=0.01, slow=SLOW)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few cases and rounds")
    parser.add_argument("--hosts", type=numbers_in, help="such as 2,4")
    parser.add_argument("--ranks-per-host", type=numbers_in, help="such as 1,2")
    parser.add_argument("--rate", help=f"of {', '.join(RATES)}, none; several: 1gbit,10gbit")
    parser.add_argument("--bytes", type=sizes_in, help="such as 8,64KiB,16MiB")
    parser.add_argument("--paths", default="zero-copy", help=f"of {', '.join(PATHS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}; or none")
    parser.add_argument("--rounds", type=int, help="how often each takes its turn")
    given = parser.parse_args()
    quick = given.quick
    given.hosts = given.hosts or ([2] if quick else [2, 4])
    given.ranks_per_host = given.ranks_per_host or ([1] if quick else [1, 2])
    given.rate = (given.rate or ("1gbit" if quick else "1gbit,10gbit")).split(",")
    given.bytes = given.bytes or (QUICK_SIZES if quick else SIZES)
    given.paths = given.paths.split(",")
    given.peers = [] if given.peers == "none" else given.peers.split(",")
    for what, known in (("rate", (*RATES, "none")), ("paths", PATHS), ("peers", PEERS)):
        if unknown := set(getattr(given, what)) - set(known):
            parser.error(f"--{what}: there is no {', '.join(sorted(unknown))}")
    if min(given.hosts) < 2 or max(given.hosts) > 200:
        parser.error("--hosts: 2 at least, 200 at most")
    return given


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and contestants go then too
    given = read_arguments()
    pace = QUICK_PACE if given.quick else FULL_PACE
    if given.rounds:
        pace = Pace(given.rounds, pace.seconds, pace.slow)
    try:
        if max(given.bytes) >= BOUNDED and shutil.which("iperf3") is None:
            peers.install(say)
        names = peers.available(given.peers, BUILD, say)
        look_around()
        for rate in given.rate:
            for hosts in given.hosts:
                if rate == "10gbit" and hosts > 2:
                    say("10gbit with more than two hosts is left out: iperf3 alone fills two cores")
                    continue
                with Network(hosts, RATES.get(rate)) as network:
                    for ranks_a_host in given.ranks_per_host:
                        hold(Layout(network, ranks_a_host), given, names, pace)
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


def hold(layout: Layout, given: argparse.Namespace, names: list[str], pace: Pace) -> None:
    with tempfile.TemporaryDirectory(prefix="lockstep-wire-") as folder:
        place = Path(folder)
        entries = [entry(name, layout, BUILD, place) for name in (*given.paths, *names)]
        for row in race(layout, given.paths, entries, given.bytes, pace, place, say):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
