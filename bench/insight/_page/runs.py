"""The table of runs: its first load, and its filter over many runs."""

from __future__ import annotations

import statistics
import time

from _insight.daemon import Daemon
from _insight.queries import make_copies
from playwright.sync_api import Browser, Page

from _page.chromium import PATIENCE, new_context, open_page, url_of
from _page.rows import say

ROUNDS = 5
SCRIPT_MAX = 300.0  # kB
LOAD_MAX = 1000.0  # ms
FILTER_MAX = 100.0  # ms

# The time at which the first rows of the table are on the screen and the page answers events.
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".runs-body .runs-row")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.usable = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
SCRIPTS = """
performance.getEntriesByType("resource")
  .filter((entry) => entry.name.endsWith(".js"))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)
"""
# Presses the button for more runs, if there is one, and says if there was.
LOADS_MORE = """
() => {
  const buttons = [...document.querySelectorAll(".runs-tools button")];
  const more = buttons.find((button) => button.textContent === "Load more");
  more?.click();
  return more !== undefined;
}
"""
TYPED = ("loss<1", "loss<1.5", "loss<1.5 sort:-loss", "loss>2", "loss>3.5", "loss>3.5 no-such-user")
# Types the query into its line and waits until the daemon's answer is on the screen.
TYPES = """
async (text) => {
  const input = document.querySelector(".query-box input");
  const count = document.querySelector(".runs-count");
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const begun = performance.now();
  set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  if (count.ariaBusy !== "true") throw new Error("the page asks for nothing");
  while (count.ariaBusy === "true" && performance.now() - begun < 10000)
    await new Promise((resolve) => requestAnimationFrame(resolve));
  return performance.now() - begun;
}
"""


def measure_load(daemon: Daemon, tabs: Browser, runs: int) -> None:
    """Each round is a browser without a cache."""
    make_copies(daemon, runs - 1)
    times: list[float] = []
    size = 0.0
    for _ in range(ROUNDS):
        context = new_context(tabs, daemon)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.goto(url_of(daemon))
        page.wait_for_function("window.usable")
        times.append(float(page.evaluate("window.usable")))
        size = float(page.evaluate(SCRIPTS))
        context.close()
    say("script of the first load, compressed", "kb", size / 1000, SCRIPT_MAX)
    say(f"table of {runs:,} runs can be used", "ms", statistics.median(times), LOAD_MAX)


def measure_filter(daemon: Daemon, tabs: Browser, runs: int) -> None:
    make_copies(daemon, runs - 1)
    page = open_page(tabs, daemon, "/")
    loaded = load_all(page)
    times = [float(page.evaluate(TYPES, text)) for text in TYPED]
    case = f"typing in the filter over {loaded:,} runs"
    say(case, "ms", statistics.median(times), FILTER_MAX, greatest_ms=max(times))
    page.context.close()


def load_all(page: Page) -> int:
    """Presses the button until it is gone; the number of runs that the page has."""
    page.wait_for_selector(".runs-body .runs-row")
    end = time.monotonic() + PATIENCE / 1000
    while page.evaluate(LOADS_MORE):
        if time.monotonic() > end:
            raise RuntimeError("the list of runs does not end")
        page.wait_for_timeout(20)
    words = page.locator(".runs-count").inner_text().replace(",", "").split()
    return max(int(word) for word in words if word.isdigit())
