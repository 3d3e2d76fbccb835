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
# Types the query into its line and waits until the count of the runs has followed.
TYPES = """
async (text) => {
  const input = document.querySelector(".query-box input");
  const count = () => document.querySelector(".runs-count").textContent;
  const before = count();
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const begun = performance.now();
  set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  while (count() === before && performance.now() - begun < 10000)
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
    times = []
    for text in ("loss<1", "loss<1.5", "loss<1.5 user", "loss>2", "loss>3.5", "loss>3.5 -user:x"):
        times.append(float(page.evaluate(TYPES, text)))
    case = f"typing in the filter over {loaded:,} runs"
    say(case, "ms", statistics.median(times), FILTER_MAX, greatest_ms=max(times))
    page.context.close()


def load_all(page: Page) -> int:
    """Presses the button until it is gone; the number of runs that the page has."""
    page.wait_for_selector(".runs-body .runs-row")
    end = time.monotonic() + PATIENCE / 1000
    more = page.get_by_role("button", name="Load more")
    while time.monotonic() < end and more.count() > 0:
        if more.is_enabled():
            more.click()
        page.wait_for_timeout(20)
    words = page.locator(".runs-count").inner_text().replace(",", "").split()
    return max(int(word) for word in words if word.isdigit())
