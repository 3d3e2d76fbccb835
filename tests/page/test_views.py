"""The views of the page in Chromium, over a daemon with runs in each state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.conftest import BUILD, PATIENCE, Cluster, reserved_port, wait_until
from tests.page.conftest import AXE, Tab

PICTURES = BUILD / "page-pictures"

TRAINS = """
import math, lockstep
for step in range(200):
    nan = step in (50, 150)
    loss = float("nan") if nan else 2 + 5 * math.exp(-step / 60)
    lockstep.log({"train/loss": loss, "eval/accuracy": step / 400}, step=step)
    if step % 100 == 99:
        image = lockstep.Image([[0, step], [step, 255]], caption="two")
        counts = lockstep.Histogram(counts=[step, 10], edges=[-1.5, 0, 2.5])
        lockstep.log({"samples": image, "weights": counts}, step=step)
    lockstep.progress(step + 1, 200)
    print(f"step {step} loss {loss:.3f}", flush=True)
"""
FAILS = """
import os
print("reads its data", flush=True)
if os.environ["RANK"] == "1":
    raise FileNotFoundError("no shard 417")
import time; time.sleep(600)
"""
PRINTS = "print('\\x1b[31mred\\x1b[0m and no metric', flush=True)"
GOES_ON = """
import itertools, time, lockstep
for step in itertools.count():
    lockstep.log({"loss": 1 / (1 + step)}, step=step)
    print(f"tick {step}", flush=True)
    time.sleep(0.2)
"""
ODD_NAME = "<img src=x onerror=alert(1)> näme & \"more\" 'words'"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """demo/1 succeeded, demo/2 failed, demo/3 has no metrics, demo/4 runs, demo/5 waits."""
    cluster = Cluster(tmp_path_factory.mktemp("views") / "home")
    with reserved_port() as port:  # the same after a restart
        cluster.serve("2x2", "--port", str(port))
        submit(cluster, "trains", TRAINS, "-g", "2")
        assert cluster.ended("demo/1")["state"] == "succeeded"
        submit(cluster, "fails", FAILS, "-g", "2")
        assert cluster.ended("demo/2")["state"] == "failed"
        submit(cluster, "prints", PRINTS)
        assert cluster.ended("demo/3")["state"] == "succeeded"
        submit(cluster, ODD_NAME, GOES_ON, "--timeout", "1h")
        cluster.running_ranks("demo/4")
        submit(cluster, "waits", PRINTS, "-n", "2", "-g", "2", "--timeout", "30m")
        yield cluster
        cluster.close()


def submit(cluster: Cluster, name: str, program: str, *options: str) -> None:
    words = ["--project", "demo", "--name", name, *options]
    cluster.submit(*words, "--", "python", "-c", program)


@pytest.fixture
def view(browser: Browser, fleet: Cluster) -> Iterator[Tab]:
    """A tab that is logged in as the administrator."""
    tab = Tab(browser, fleet)
    tab.log_in(fleet.token())
    tab.sees("demo/5")
    yield tab
    tab.close()


def shown(what: Locator) -> None:
    expect(what.first).to_be_visible(timeout=PATIENCE * 1000)


def last_tick(tab: Tab) -> int:
    """The newest line in view: lines come faster than each of them is drawn."""
    return int(tab.page.get_by_text(re.compile(r"^tick \d+$")).last.inner_text().split()[1])


def rows(tab: Tab) -> Locator:
    return tab.page.locator(".runs-body .runs-row")


def count(what: Locator, number: int) -> None:
    expect(what).to_have_count(number, timeout=PATIENCE * 1000)


def test_the_query_line_filters_sorts_and_is_in_the_address(view: Tab) -> None:
    count(rows(view), 5)
    line = view.page.get_by_label("Filter and sort runs")
    line.fill("state:failed")
    count(rows(view), 1)
    shown(rows(view).get_by_text("demo/2"))
    line.fill("-state:failed train/loss<3")
    count(rows(view), 1)
    shown(rows(view).get_by_text("demo/1"))
    line.fill("sort:id")
    expect(rows(view).first).to_contain_text("demo/1")
    assert "q=sort:id" in view.page.url
    view.page.reload()
    expect(rows(view).first).to_contain_text("demo/1")


def test_a_query_that_cannot_be_read_says_why_and_filters_nothing(view: Tab) -> None:
    view.page.get_by_label("Filter and sort runs").fill("train/loss<low")
    view.sees("compares with a number")
    count(rows(view), 5)


def test_keys_move_select_and_open(view: Tab) -> None:
    view.page.keyboard.press("/")
    view.page.keyboard.type("sort:id")
    view.page.keyboard.press("Enter")
    expect(rows(view).first).to_contain_text("demo/1")
    for key in ("j", "x", "j", "x"):
        view.page.keyboard.press(key)
    view.sees("2 selected")
    view.page.keyboard.press("c")
    view.page.wait_for_url(re.compile(r"/compare\?runs="))
    view.sees("Compare 2 runs")
    view.page.keyboard.press("Escape")
    view.page.wait_for_url(re.compile(r"/$"))
    view.page.keyboard.press("j")
    view.page.keyboard.press("Enter")
    view.page.wait_for_url(re.compile(r"/runs/demo/\d$"))


def test_the_boxes_of_rows_select_runs_that_are_then_compared(view: Tab) -> None:
    count(rows(view), 5)
    for row in (0, 1):
        rows(view).nth(row).get_by_role("checkbox").check()
    view.sees("2 selected")
    view.page.get_by_role("button", name="Compare").click()
    view.sees("Compare 2 runs")


def test_the_box_in_the_head_selects_all_runs_of_the_query_line(view: Tab) -> None:
    view.page.get_by_label("Filter and sort runs").fill("-state:failed")
    count(rows(view), 4)
    box = view.page.get_by_label("Select all runs of the query line")
    box.check()
    view.sees("4 selected")
    rows(view).first.get_by_role("checkbox").uncheck()
    assert box.evaluate("box => box.indeterminate")
    box.check()
    view.sees("4 selected")
    box.uncheck()
    count(view.page.get_by_role("toolbar", name="Selected runs"), 0)


def test_a_column_that_is_pinned_stays_while_the_others_scroll(view: Tab) -> None:
    view.page.set_viewport_size({"width": 900, "height": 600})
    view.go("/?columns=name,state,user,reason,command,note")
    count(rows(view), 5)
    view.page.get_by_title("Choose columns").click()
    view.page.get_by_label("Pin user").click()
    view.page.wait_for_url(re.compile("columns=name,user,state,reason,command,note&pinned=2$"))
    view.page.keyboard.press("Escape")
    view.page.locator(".runs-table").evaluate("table => { table.scrollLeft = 10000; }")
    heads = view.page.get_by_role("columnheader")
    for name in ("Name", "User"):
        expect(heads.filter(has_text=name)).to_be_in_viewport(ratio=1)
    left = heads.filter(has_text="State").bounding_box()
    user = heads.filter(has_text="User").bounding_box()
    assert left and user and left["x"] < user["x"]  # below the pinned ones


def test_histograms_are_drawn_below_the_curves_with_a_map_of_their_steps(view: Tab) -> None:
    view.go("/runs/demo/1")
    view.page.get_by_text("Histograms", exact=True).scroll_into_view_if_needed()
    card = view.page.get_by_role("region", name="weights", exact=True)
    shown(card)
    card.scroll_into_view_if_needed()
    shown(card.get_by_text("step 199"))
    shown(card.get_by_role("img", name="209 values from \u22121.500 to 2.500"))
    card.get_by_role("slider").press("Home")
    shown(card.get_by_text("step 99"))
    card.get_by_label("Rank of weights").select_option("Rank 1")
    shown(card.get_by_text("step 99"))


def test_the_curves_of_a_run_are_drawn_and_mark_what_is_not_finite(view: Tab) -> None:
    view.go("/runs/demo/1")
    loss = view.page.get_by_role("region", name="train/loss", exact=True)
    shown(loss.locator("canvas"))
    shown(loss.get_by_text("2 not finite"))
    box = loss.locator(".u-over").bounding_box()
    assert box
    view.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    accuracy = view.page.get_by_role("region", name="eval/accuracy", exact=True)
    shown(accuracy.get_by_text(re.compile("^step ")))  # the pointer is shared
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 20, steps=4)
    view.page.mouse.up()
    view.page.wait_for_url(re.compile("zoom="))
    view.page.get_by_role("button", name="Reset the zoom").click()
    view.page.wait_for_url(re.compile(r"/runs/demo/1$"))


# Another zoom at each of 20 frames.
MOVES_ZOOM = """
async () => {
  for (let from = 1; from <= 20; from += 1) {
    history.replaceState(null, "", `${location.pathname}?zoom=${from},150`);
    dispatchEvent(new PopStateEvent("popstate"));
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
}
"""


def test_a_zoom_reads_points_only_when_it_rests(view: Tab) -> None:
    view.go("/runs/demo/1")
    shown(view.page.get_by_role("region", name="train/loss", exact=True).locator("canvas"))
    calls: list[str] = []
    view.page.on("request", lambda each: calls.append(each.url))
    with view.page.expect_response(re.compile("loss.*after_step=19")):
        view.page.evaluate(MOVES_ZOOM)
    assert all("after_step=19" in call for call in calls if "after_step" in call)


def test_a_failed_run_leads_to_the_first_error_in_its_lines(view: Tab) -> None:
    view.go("/runs/demo/2")
    view.sees("FileNotFoundError: no shard 417")
    view.page.get_by_text("First error in the logs").click()
    shown(view.page.locator(".log-line.mark").get_by_text("no shard 417"))


def test_lines_arrive_live_and_are_searched_in_the_daemon(view: Tab) -> None:
    view.go("/runs/demo/4/logs")
    seen = last_tick(view)
    wait_until("later lines are shown", lambda: last_tick(view) >= seen + 5)
    view.page.get_by_label("Find in all lines").fill("tick [01]$")
    view.sees("2 lines")
    view.page.get_by_label("Find in all lines").fill("tick [")
    view.sees("missing ]")


def test_a_run_without_metrics_says_how_to_log_them(view: Tab) -> None:
    view.go("/runs/demo/3")
    view.sees("This run logged no metrics")
    view.sees("lockstep.log(")
    view.go("/runs/demo/3/logs")
    shown(view.page.locator(".ansi-1").get_by_text("red", exact=True))


def test_logged_images_are_shown_by_name_and_step(view: Tab) -> None:
    view.go("/runs/demo/1/artifacts")
    image = view.page.get_by_role("img", name="two, rank 0")
    shown(image)
    view.sees("step 199")
    view.page.get_by_label("Step of samples").fill("0")
    view.sees("step 99")
    shown(image)


def test_an_odd_name_is_a_text_and_nothing_else(view: Tab) -> None:
    view.go("/runs/demo/4")
    shown(view.page.get_by_role("heading", name="demo/4"))
    view.sees(ODD_NAME)
    assert view.page.locator("img[src=x]").count() == 0


def test_a_run_that_waits_says_why_and_can_be_held_and_released(view: Tab) -> None:
    view.go("/runs/demo/5")
    view.sees("expected to start")
    view.page.get_by_role("button", name="Hold").click()
    shown(view.page.get_by_role("button", name="Release"))
    assert view.cluster.show("demo/5")["held"]
    view.page.get_by_role("button", name="Release").click()
    shown(view.page.get_by_role("button", name="Hold"))


def test_tags_and_the_note_are_changed(view: Tab) -> None:
    view.go("/runs/demo/3")
    view.page.get_by_role("button", name="Add", exact=True).click()
    view.page.get_by_label("Tags, one KEY=VALUE a line").fill("team=speech")
    view.page.get_by_label("Note", exact=True).fill("a good one")
    view.page.get_by_role("button", name="Save", exact=True).click()
    view.sees("team=speech")
    assert view.cluster.show("demo/3")["note"] == "a good one"


def test_a_viewer_sees_no_button_that_the_daemon_would_refuse(
    browser: Browser, fleet: Cluster
) -> None:
    if "vera" not in fleet.ok("user", "ls"):
        fleet.ok("user", "add", "vera")
        fleet.ok("project", "add", "demo")
        fleet.ok("project", "member", "demo", "vera", "--role", "viewer")
    token = fleet.ok("token", "create", "--user", "vera").split()[-1]
    tab = Tab(browser, fleet)
    tab.log_in(token)
    tab.sees("demo/5")
    tab.go("/runs/demo/4")
    shown(tab.page.get_by_role("heading", name="demo/4"))
    tab.sees("vera")
    for name in ("Stop", "Extend", "Fork", "Hold", "Resume"):
        assert tab.page.get_by_role("button", name=name, exact=True).count() == 0
    tab.close()


def test_a_restart_of_the_daemon_is_shown_and_passes(view: Tab) -> None:
    view.go("/runs/demo/4/logs")
    shown(view.page.get_by_text(re.compile(r"^tick \d+$")))
    view.cluster.kill_daemon()
    view.sees("Not live")
    view.cluster.ok("ps")  # starts the next daemon, on the same port
    count(view.page.get_by_text("Not live"), 0)
    seen = last_tick(view)
    wait_until("later lines are shown", lambda: last_tick(view) >= seen + 3)


VIEWS = {
    "runs": "/",
    "groups": "/?q=group:state",
    "run": "/runs/demo/1?smooth=0.6",
    "failed": "/runs/demo/2",
    "telemetry": "/runs/demo/4/telemetry",
    "logs": "/runs/demo/2/logs",
    "nodes": "/runs/demo/4/nodes",
    "flight": "/runs/demo/4/flight",
    "artifacts": "/runs/demo/1/artifacts",
    "specification": "/runs/demo/1/settings",
    "code": "/runs/demo/1/code",
    "reports": "/reports",
    "editor": "/reports/new?runs=demo/1,demo/4",
    "compare": "/compare?runs=demo/1,demo/2,demo/4",
    "cluster": "/cluster",
    "submit": "/submit",
    "budget": "/budget",
    "settings": "/settings",
}


# True while a chart in view has no points yet. The page's policy forbids wait_for_function().
CHART_WAITS = """
[...document.querySelectorAll(".chart-waiting")].some((chart) => {
  const { top, bottom } = chart.getBoundingClientRect();
  return chart.checkVisibility() && bottom > 0 && top < innerHeight - 60;
})
"""


@pytest.mark.skipif(not AXE.exists(), reason="npm has not installed axe-core")
@pytest.mark.parametrize("width", [1440, 400])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_each_view_is_accessible_and_fits(
    view: Tab, scheme: Literal["dark", "light"], width: int
) -> None:
    PICTURES.mkdir(exist_ok=True)
    view.page.emulate_media(color_scheme=scheme)
    view.page.set_viewport_size({"width": width, "height": 900})
    for name, path in VIEWS.items():
        view.go(path)
        shown(view.page.get_by_text("Live"))
        expect(view.page.locator("h1, h2").first).to_be_attached(timeout=PATIENCE * 1000)
        wait_until("charts have points", lambda: not view.page.evaluate(CHART_WAITS))
        view.page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png")
        assert view.serious_faults() == [], name
        too_wide = "document.documentElement.scrollWidth > window.innerWidth"
        assert not view.page.evaluate(too_wide), f"{name} is wider than {width} pixels"
