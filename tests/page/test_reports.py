"""Reports, saved views and groups of runs in the page, over a daemon with a few runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import PATIENCE, Cluster
from tests.page.conftest import AXE, Tab
from tests.page.test_views import PICTURES

LOGS = """
import sys, lockstep
rate = float(sys.argv[2])
for step in range(60):
    lockstep.log({"train/loss": 5 - rate * step, "tokens": step * 2048}, step=step)
"""
RATES = ("0.01", "0.02", "0.05")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """demo/1 to demo/3 differ in --lr and have logged a loss and their tokens."""
    cluster = Cluster(tmp_path_factory.mktemp("reports") / "home")
    cluster.serve("2x2")
    for rate in RATES:
        words = ["--project", "demo", "--name", f"rate {rate}"]
        run = cluster.submit(*words, "--", "python", "-c", LOGS, "--lr", rate)
        cluster.ok("tag", run, "sweep=rates")
    for number in range(1, len(RATES) + 1):
        assert cluster.ended(f"demo/{number}")["state"] == "succeeded"
    yield cluster
    cluster.close()


@pytest.fixture
def view(browser: Browser, swept: Cluster) -> Iterator[Tab]:
    yield from logged_in(browser, swept)


def logged_in(browser: Browser, cluster: Cluster) -> Iterator[Tab]:
    tab = Tab(browser, cluster)
    tab.log_in(cluster.token())
    tab.sees("demo/3")
    yield tab
    tab.close()


def test_groups_count_their_runs_and_open(view: Tab) -> None:
    view.page.get_by_title("Divide the table into groups").click()
    view.page.get_by_role("button", name="lr", exact=True).click()
    heads = view.page.locator(".runs-row.group")
    expect(heads).to_have_count(3)
    assert "group:lr" in view.page.url
    view.page.get_by_label("Filter and sort runs").fill("group:tag.sweep")
    expect(heads).to_have_count(1)
    expect(heads.first).to_contain_text("rates")
    heads.first.click()
    expect(view.page.locator(".runs-body .runs-row")).to_have_count(4)
    heads.first.get_by_role("checkbox").check()
    view.sees("3 selected")
    if AXE.exists():
        assert view.serious_faults() == []


def test_a_saved_view_is_there_in_another_browser(
    view: Tab, browser: Browser, swept: Cluster
) -> None:
    view.go("/?q=sort:-lr&columns=name,lr")
    view.page.get_by_title("Saved views").click()
    view.page.get_by_role("button", name="Save this view").click()
    view.page.get_by_label("Name of the view").fill("by rate")
    view.page.get_by_role("button", name="Save", exact=True).click()
    view.sees("Saved the view by rate")
    for other in logged_in(browser, swept):
        other.page.get_by_title("Saved views").click()
        other.page.get_by_text("by rate").click()
        other.page.wait_for_url(re.compile(r"columns=name%2Clr|columns=name,lr"))
        first = other.page.locator(".runs-body .runs-row").first
        expect(first).to_contain_text("rate 0.05")


def test_a_report_of_compared_runs_is_saved_and_opens_at_its_address(view: Tab) -> None:
    view.go("/compare?runs=demo/1,demo/2,demo/3")
    view.page.get_by_role("link", name="Write a report").click()
    view.page.get_by_label("Name of the report").fill("Rates")
    text = view.page.get_by_label("Text of the report, in Markdown")
    expect(text).to_have_value(re.compile(r"metric: train/loss\nruns: demo/1, demo/2, demo/3"))
    text.press("End")
    view.page.keyboard.insert_text("<img src=x onerror=alert(1)> **bold**\n\n")
    view.page.get_by_role("button", name="Save", exact=True).click()
    view.page.wait_for_url(re.compile(r"/reports/\d+$"), timeout=PATIENCE * 1000)
    expect(view.page.get_by_role("heading", name="Rates")).to_be_visible()
    chart = view.page.get_by_role("region", name="train/loss", exact=True)
    expect(chart.locator("canvas")).to_be_visible(timeout=PATIENCE * 1000)
    view.sees("<img src=x onerror=alert(1)>")
    assert view.page.locator("img[src=x]").count() == 0
    expect(view.page.locator(".prose strong")).to_have_text("bold")
    if AXE.exists():
        assert view.serious_faults() == []
    PICTURES.mkdir(exist_ok=True)
    view.page.screenshot(path=PICTURES / "report-dark-1440.png", full_page=True)
    view.page.get_by_role("button", name="Remove").click()
    view.page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    view.sees("No reports yet")


def test_curves_are_drawn_by_a_metric(view: Tab) -> None:
    view.go("/runs/demo/1?x=metric:tokens")
    chart = view.page.get_by_role("region", name="train/loss", exact=True)
    expect(chart.locator("canvas")).to_be_visible(timeout=PATIENCE * 1000)
    box = chart.locator(".u-over").bounding_box()
    assert box
    view.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    expect(chart.get_by_text(re.compile("^tokens "))).to_be_visible()
