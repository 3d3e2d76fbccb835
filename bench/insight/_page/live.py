"""The cost of live pages: of the browser's processes, and of the daemon."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

from _insight.daemon import Daemon
from playwright.sync_api import Browser

from _page.chromium import browser_seconds, open_page, processor_seconds
from _page.readers import readers, record
from _page.rows import say

WINDOW = 10.0  # s
BROWSER_MAX = 20.0  # percent of a core
DAEMON_MAX = 10.0
LOGS = """
import itertools, time, lockstep
for step in itertools.count():
    lockstep.log({"loss": 1 / (1 + step), "accuracy": step / (100 + step)}, step=step)
    time.sleep(0.1)
"""


@contextlib.contextmanager
def live_runs(daemon: Daemon, runs: int) -> Iterator[list[str]]:
    """Runs that log ten times a second, until the end of the block."""
    words = ["--name", "live", "--detach", "--timeout", "1h", "--json", "--"]
    command = ["run", *words, "python3", "-c", LOGS]
    made: list[str] = []
    try:
        made += (str(json.loads(daemon.lockstep(*command))["id"]) for _ in range(runs))
        end = time.monotonic() + 300
        while not all(logs(daemon, run) for run in made):
            if time.monotonic() > end:
                raise RuntimeError("the runs do not log")
            time.sleep(0.5)
        yield made
    finally:
        daemon.lockstep("stop", "--wait", *made)


def logs(daemon: Daemon, run: str) -> bool:
    return "loss" in json.loads(daemon.lockstep("show", run, "--json"))["latest"]


def measure_updates(daemon: Daemon, tabs: Browser, runs: int) -> None:
    """The table of runs with curves, while all of its runs log."""
    with live_runs(daemon, runs):
        page = open_page(tabs, daemon, "/?columns=name,state,step,curve:loss,running")
        page.wait_for_function(f"document.querySelectorAll('.spark path').length >= {runs}")
        time.sleep(3)
        used = browser_seconds()
        begun = time.monotonic()
        time.sleep(WINDOW)
        share = 100 * (browser_seconds() - used) / (time.monotonic() - begun)
        case = f"the browser's processes, a table of {runs} runs at 10 Hz"
        say(case, "percent", share, BROWSER_MAX)
        page.context.close()


def measure_pages(daemon: Daemon, tabs: Browser, pages: int) -> None:
    """Pages of one run, in browsers that share nothing."""
    process = int(json.loads((daemon.home / "daemon.json").read_text())["pid"])
    with live_runs(daemon, 1) as [run]:
        alone = daemon_share(process)
        page = open_page(tabs, daemon, f"/runs/{run}")
        page.wait_for_selector("canvas")
        page.wait_for_timeout(3000)
        recording = record(page, WINDOW)
        page.context.close()
        with readers(daemon.address, daemon.token, recording, pages):
            time.sleep(3)
            shown = daemon_share(process)
    case = f"the daemon, {pages} open pages of a run at 10 Hz"
    asked = len(recording.requests) / recording.span
    say(case, "percent", shown, DAEMON_MAX, without_pages_percent=alone, requests_a_page=asked)


def daemon_share(process: int) -> float:
    used = processor_seconds(process)
    begun = time.monotonic()
    time.sleep(WINDOW)
    return 100 * (processor_seconds(process) - used) / (time.monotonic() - begun)
