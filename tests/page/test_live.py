"""The stream of changes in Chromium: many tabs, one connection, and a restart in the middle."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import PATIENCE, Cluster, reserved_port, wait_until
from tests.page.conftest import Tab

TABS = 10
STREAMS = 50
GOES_ON = """
import itertools, time, lockstep
for step in itertools.count():
    lockstep.log({"loss": 1 / (1 + step)}, step=step)
    print(f"tick {step}", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """demo/1 runs and prints ten lines a second."""
    cluster = Cluster(tmp_path_factory.mktemp("live") / "home")
    with reserved_port() as port:  # the same after a restart
        cluster.serve("2x2", "--port", str(port))
        words = ["--project", "demo", "--name", "goes-on", "--timeout", "1h"]
        cluster.submit(*words, "--", "python", "-c", GOES_ON)
        cluster.running_ranks("demo/1")
        yield cluster
        cluster.close()


def newest_tick(page: Page) -> int:
    return int(page.get_by_text(re.compile(r"^tick \d+$")).last.inner_text().split()[1])


def is_live(page: Page) -> None:
    expect(page.locator(".connection")).to_have_text("Live", timeout=PATIENCE * 1000)


def open_tabs(tab: Tab, path: str) -> list[Page]:
    pages = [tab.page, *(tab.context.new_page() for _ in range(TABS - 1))]
    for page in pages:
        page.goto(tab.url + path)
    return pages


def show_later_lines(pages: list[Page], seen: list[int]) -> None:
    def newer() -> bool:
        return all(newest_tick(page) > tick + 2 for page, tick in zip(pages, seen, strict=True))

    wait_until("each tab shows later lines", newer)


def test_ten_tabs_of_a_browser_stay_live_and_share_one_stream(
    browser: Browser, lively: Cluster
) -> None:
    tab = Tab(browser, lively)
    tab.log_in(lively.token())
    tab.sees("demo/1")
    streams: list[str] = []
    tab.context.on("request", lambda r: streams.append(r.url) if "/events" in r.url else None)
    pages = open_tabs(tab, "/runs/demo/1/logs")
    for page in pages:
        is_live(page)
        expect(page.get_by_text(re.compile(r"^tick \d+$")).first).to_be_visible()
    seen = [newest_tick(page) for page in pages]
    show_later_lines(pages, seen)
    # A stream in each tab would use up the six connections of the browser, and no line would come.
    assert streams == []  # no tab has one: the worker has
    lively.kill_daemon()
    for page in pages:
        expect(page.locator(".connection")).not_to_have_text("Live", timeout=PATIENCE * 1000)
    lively.ok("ps")  # starts the next daemon, on the same port
    for page in pages:
        is_live(page)
    seen = [newest_tick(page) for page in pages]
    show_later_lines(pages, seen)
    tab.close()


def test_lines_stay_where_the_reader_scrolled_up_to_while_others_come(
    browser: Browser, lively: Cluster
) -> None:
    tab = Tab(browser, lively)
    tab.log_in(lively.token())
    tab.go("/runs/demo/1/logs")
    first = tab.page.get_by_text("tick 0", exact=True)
    expect(tab.page.get_by_text(re.compile(r"^tick \d+$")).first).to_be_visible()
    wait_until("more lines than the box shows", lambda: newest_tick(tab.page) > 60)
    box = tab.page.get_by_role("log")
    box.hover()
    tab.page.mouse.wheel(0, -100_000)
    expect(first).to_be_in_viewport()
    height = "document.querySelector('.log-box').scrollHeight"
    before = int(tab.page.evaluate(height))
    wait_until("lines come", lambda: tab.page.evaluate(height) > before + 100)
    expect(first).to_be_in_viewport()
    tab.page.mouse.wheel(0, 100_000)  # at the end again
    show_later_lines([tab.page], [newest_tick(tab.page)])
    tab.close()


def test_a_change_by_a_command_is_shown_at_once(browser: Browser, lively: Cluster) -> None:
    tab = Tab(browser, lively)
    tab.log_in(lively.token())
    tab.sees("demo/1")
    is_live(tab.page)
    lively.ok("run", "--project", "demo", "--name", "arrives", "--detach", "--", "true")
    expect(tab.page.get_by_text("arrives").first).to_be_visible(timeout=PATIENCE * 1000)
    tab.close()


class Stream:
    """A reader of the stream of changes that reads nothing."""

    def __init__(self, cluster: Cluster) -> None:
        host, _, port = cluster.url().removeprefix("http://").partition(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        head = {"Authorization": f"Bearer {cluster.token()}", "Accept": "text/event-stream"}
        self.connection.request("GET", "/api/v1/events", headers=head)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.readline() == b"retry: 1000\n"


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def test_fifty_streams_cost_the_daemon_little(lively: Cluster) -> None:
    pid = lively.daemon_pid()
    seconds = 3.0

    def share() -> float:
        began, used = time.monotonic(), processor_seconds(pid)
        wait_until("some time has passed", lambda: time.monotonic() - began > seconds)
        return (processor_seconds(pid) - used) / (time.monotonic() - began)

    alone = share()
    streams = [Stream(lively) for _ in range(STREAMS)]
    with_streams = share()
    for stream in streams:
        stream.connection.close()
    print(f"the daemon alone {alone:.1%}, with {STREAMS} streams {with_streams:.1%}")
    assert with_streams - alone < 0.1
