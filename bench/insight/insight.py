"""Metrics of runs: ingest, storage, curves and lists, beside MLflow and TensorBoard."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from _contest.contest import names_of, warn_if_loaded
from _insight import ingest, load, queries
from _insight.daemon import Daemon
from _insight.servers import peer_packages

CASES = ("http", "points", "client", "process", "curve", "chart", "list", "query", "load")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a tenth of the points")
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--seconds", type=int, default=60, help="of the case load")
    given = parser.parse_args()
    packages = peer_packages()
    if packages is None:
        sys.exit("the peers cannot be installed")
    warn_if_loaded()
    share = 10 if given.quick else 1
    measures = {
        "http": lambda daemon: ingest.measure_http(daemon, packages, 3 if given.quick else 7),
        "points": lambda daemon: ingest.measure_columns(daemon, packages, 3 if given.quick else 7),
        "client": lambda daemon: ingest.measure_client(daemon, packages, 2 if given.quick else 5),
        "process": lambda daemon: ingest.measure_process(daemon, packages),
        "curve": lambda daemon: queries.measure_long_curve(
            daemon, packages, 10_000_000 // share, 1_000_000 // share
        ),
        "chart": lambda daemon: queries.measure_chart(daemon, 50, 1_000_000 // share),
        "list": lambda daemon: queries.measure_list(daemon, packages, 100_000 // share),
        "query": lambda daemon: queries.measure_query_lines(daemon, 100_000 // share),
        "load": lambda daemon: load.measure_load(daemon, given.seconds // share),
    }
    for case in given.cases:
        with tempfile.TemporaryDirectory() as home, Daemon(Path(home)) as daemon:
            measures[case](daemon)


if __name__ == "__main__":
    main()
