"""Debian's Chromium without a window, and the processor time of all its processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from _insight.daemon import Daemon
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
PATIENCE = 120_000.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


def new_context(tabs: Browser, daemon: Daemon) -> BrowserContext:
    """A browser of its own, without a cache, that is logged in.

    The page's policy forbids eval(), by which wait_for_function() calls its condition.
    """
    context = tabs.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    context.set_default_timeout(PATIENCE)
    context.request.post(f"{url_of(daemon)}/api/v1/session", data={"token": daemon.token})
    return context


def url_of(daemon: Daemon) -> str:
    host, port = daemon.address
    return f"http://{host}:{port}"


def open_page(tabs: Browser, daemon: Daemon, path: str) -> Page:
    page = new_context(tabs, daemon).new_page()
    page.goto(url_of(daemon) + path)
    return page


def processor_seconds(process: int) -> float:
    """The time of a process, without that of its children."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def browser_seconds() -> float:
    """The time of all processes of Chromium that descend from this one."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            parents[int(folder.name)] = int(rest.split()[1])
            names[int(folder.name)] = name
    total = 0.0
    for process, name in names.items():
        if "chrom" in name and descends(process, parents):
            with contextlib.suppress(OSError):
                total += processor_seconds(process)
    return total


def descends(process: int, parents: dict[int, int]) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        process = parents.get(process, 0)
    return False
