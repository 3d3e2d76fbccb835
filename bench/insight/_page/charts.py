"""Fifty charts of a run of eight ranks: drawn, and with a zoom that they share."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path

from _contest.contest import BUILD
from _insight.daemon import Daemon
from playwright.sync_api import Browser, Page, Request

from _page.chromium import new_context, processor_seconds, url_of
from _page.rows import say, say_rate

METRICS = 50
RANKS = 8
ROUNDS = 3
DRAWN_MAX = 1000.0  # ms
FRAMES_MIN = 30.0  # a second
WRITER = BUILD / "bin" / "bench_write_curves"
WRITE_SECONDS = 3600.0
ANSWER_SECONDS = 120.0
# The first step of each metric, so that the run has them; the others are written by WRITER.
LOGS = """
import sys, lockstep
names = [f"group{i % 5}/metric{i}" for i in range(int(sys.argv[1]))]
lockstep.log(dict.fromkeys(names, 0.0), step=0)
"""
# When all charts that are in view have a canvas with a curve.
WATCH = """
const inView = (element) => {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};
const check = () => {
  const cells = [...document.querySelectorAll(".chart-grid > div")].filter(inView);
  if (cells.length > 0 && cells.every((cell) => cell.querySelector("canvas")))
    setTimeout(() => { window.drawn = performance.now(); window.charts = cells.length; });
  else requestAnimationFrame(check);
};
addEventListener("DOMContentLoaded", () => requestAnimationFrame(check));
"""
# Another zoom at each frame, as while a reader drags; the frames that the browser has painted.
ZOOMS = """
async (steps) => {
  const frames = 60;
  const begun = performance.now();
  for (let frame = 1; frame <= frames; frame += 1) {
    const from = Math.round((steps * frame) / 200);
    history.replaceState(null, "", `${location.pathname}?zoom=${from},${steps - from}`);
    dispatchEvent(new PopStateEvent("popstate"));
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  return (1000 * frames) / (performance.now() - begun);
}
"""


def measure(daemon: Daemon, tabs: Browser, steps: int) -> None:
    run = make_run(daemon, steps)
    times = []
    rates = []
    charts = 0
    for _ in range(ROUNDS):
        context = new_context(tabs, daemon)
        context.add_init_script(WATCH)
        page = context.new_page()
        asked = calls_under_way(page)
        page.goto(f"{url_of(daemon)}/runs/{run}")
        page.wait_for_function("window.drawn")
        times.append(float(page.evaluate("window.drawn")))
        charts = int(page.evaluate("window.charts"))
        wait_for_answers(page, asked)
        rates.append(float(page.evaluate(ZOOMS, steps)))
        context.close()
    points = f"{METRICS} charts x {RANKS} ranks x {steps:,} points"
    say(f"{charts} charts in view of {points} drawn", "ms", statistics.median(times), DRAWN_MAX)
    say_rate(f"shared zoom of {points}", "fps", statistics.median(rates), FRAMES_MIN)


def make_run(daemon: Daemon, steps: int) -> str:
    """A run of RANKS ranks with `steps` points of each metric of each rank."""
    words = ["run", "--name", "charts", "--detach", "-g", str(RANKS), "--json"]
    words += ["--", "python3", "-c", LOGS, str(METRICS)]
    run: str = json.loads(daemon.lockstep(*words))["id"]
    wait_for_end(daemon, run)
    daemon.stop()
    shape = [str(METRICS), str(RANKS), str(steps)]
    write = [WRITER, daemon.home / "series", name_in_series(daemon.home, run), *shape]
    subprocess.run(write, check=True, timeout=WRITE_SECONDS)
    daemon.start()
    wait_for_rest(daemon)
    return run


def wait_for_rest(daemon: Daemon) -> None:
    """Until the daemon has sealed and merged the points."""
    process = int(json.loads((daemon.home / "daemon.json").read_text())["pid"])
    end = time.monotonic() + 600
    while time.monotonic() < end:
        used = processor_seconds(process)
        time.sleep(3)
        if processor_seconds(process) - used < 0.1:
            return
    raise RuntimeError("the daemon is not at rest")


def name_in_series(home: Path, run: str) -> str:
    """The run's name in the series store has the generation of its first node."""
    project, _, number = run.partition("/")
    with contextlib.closing(sqlite3.connect(home / "lockstep.db")) as database:
        [generation] = database.execute(
            "select generation from run_counters where project = ? and number = ?",
            (project, number),
        ).fetchone()
    return f"{project}.{generation}/{number}" if generation else run


def calls_under_way(page: Page) -> set[Request]:
    """The page's calls of the API that have no answer so far. Playwright never counts the script
    of a shared worker as loaded, so it never calls this page's network idle."""
    asked: set[Request] = set()
    page.on("request", lambda each: asked.add(each) if "/api/" in each.url else None)
    page.on("requestfinished", lambda each: asked.discard(each))
    page.on("requestfailed", lambda each: asked.discard(each))
    return asked


def wait_for_answers(page: Page, asked: set[Request]) -> None:
    end = time.monotonic() + ANSWER_SECONDS
    while asked:
        if time.monotonic() > end:
            raise RuntimeError(f"no answer to {len(asked)} calls after {ANSWER_SECONDS:.0f} s")
        page.wait_for_timeout(100)


def wait_for_end(daemon: Daemon, run: str) -> None:
    end = time.monotonic() + 120
    while json.loads(daemon.lockstep("show", run, "--json"))["ended"] is None:
        if time.monotonic() > end:
            raise RuntimeError(f"{run} does not end")
        time.sleep(0.5)
