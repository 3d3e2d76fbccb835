"""The web page in headless Chromium: first load, 10,000 runs, charts, filter, live updates."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from _contest.contest import names_of, warn_if_loaded
from _insight.daemon import Daemon
from _page import charts, live, peers, runs
from _page.chromium import CHROMIUM, browser

CASES = ("load", "charts", "filter", "live", "pages", "peers")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a tenth of it all")
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each curve of the charts")
    given = parser.parse_args()
    if not CHROMIUM.exists():
        sys.exit(f"there is no {CHROMIUM}: install Debian's chromium")
    warn_if_loaded()
    share = 10 if given.quick else 1
    measures = {
        "load": lambda daemon, tabs: runs.measure_load(daemon, tabs, 10_000 // share),
        "charts": lambda daemon, tabs: charts.measure(daemon, tabs, given.steps // share),
        "filter": lambda daemon, tabs: runs.measure_filter(daemon, tabs, 100_000 // share),
        "live": lambda daemon, tabs: live.measure_updates(daemon, tabs, 20),
        "pages": lambda daemon, tabs: live.measure_pages(daemon, tabs, 50 // share),
        "peers": lambda daemon, tabs: peers.measure(daemon, tabs, 10_000 // share, 20_000 // share),
    }
    for case in given.cases:
        with (
            tempfile.TemporaryDirectory() as home,
            Daemon(Path(home), "1x20") as daemon,
            browser() as tabs,
        ):
            measures[case](daemon, tabs)


if __name__ == "__main__":
    main()
