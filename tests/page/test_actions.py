"""Administrators, members and viewers act in the page: hosts, budgets, members, submissions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import PATIENCE, PROGRAM, Cluster, wait_until
from tests.page.conftest import Tab
from tests.page.test_views import PICTURES

WAITS = "import time; time.sleep(600)"


@pytest.fixture(scope="module")
def staffed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A project with a budget, a member and a viewer, and a run of the administrator."""
    cluster = Cluster(tmp_path_factory.mktemp("actions") / "home")
    cluster.serve("2x2")
    for words in (
        ("project", "add", "speech"),
        ("user", "add", "mia"),
        ("user", "add", "vera"),
        ("project", "member", "speech", "mia", "--role", "member"),
        ("project", "member", "speech", "vera", "--role", "viewer"),
        ("budget", "grant", "speech", "600", "--until", "30d"),
    ):
        cluster.ok(*words)
    options = ["--project", "speech", "--name", "waits", "--timeout", "1h"]
    cluster.submit(*options, "--", "python", "-c", WAITS)
    yield cluster
    cluster.close()


@pytest.fixture
def admin(browser: Browser, staffed: Cluster) -> Iterator[Tab]:
    yield from opened(browser, staffed, staffed.token())


def opened(browser: Browser, cluster: Cluster, token: str) -> Iterator[Tab]:
    tab = Tab(browser, cluster)
    tab.log_in(token)
    tab.sees("speech/1")
    yield tab
    tab.close()


def of_json(cluster: Cluster, *words: str) -> Any:
    return json.loads(cluster.ok(*words, "--json"))


def state_of(cluster: Cluster, host: str) -> str:
    hosts = of_json(cluster, "host", "ls")["hosts"]
    return str(next(row["state"] for row in hosts if row["id"] == host))


def test_a_host_is_cordoned_with_a_reason_and_released(admin: Tab) -> None:
    admin.go("/cluster")
    card = admin.page.locator(".host", has_text="vm-1")
    card.get_by_title("What to do with vm-1").click()
    card.get_by_role("button", name="Cordon").click()
    admin.page.get_by_label("Reason, which runs that wait show").fill("new fan")
    admin.sees("lockstep host cordon vm-1 --reason 'new fan'")
    admin.page.get_by_role("dialog").get_by_role("button", name="Cordon", exact=True).click()
    expect(card.locator(".badge")).to_have_text("closed")
    admin.sees("new fan")
    assert state_of(admin.cluster, "vm-1") == "closed"
    card.get_by_title("What to do with vm-1").click()
    card.get_by_role("button", name="Release").click()
    admin.page.get_by_role("dialog").get_by_role("button", name="Release", exact=True).click()
    wait_until("it is open", lambda: state_of(admin.cluster, "vm-1") == "open")


def test_devices_are_coloured_by_the_chosen_property_which_is_in_the_address(admin: Tab) -> None:
    admin.go("/cluster?run=speech/1")
    expect(admin.page.locator(".device.c0")).not_to_have_count(0)
    admin.page.get_by_label("Colour by").select_option("fragmentation")
    admin.page.wait_for_url(re.compile("color=fragmentation"))
    # One of two devices of a host is used: that host is in use in part.
    expect(admin.page.locator(".devices .device.level-warn")).to_have_count(2)
    expect(admin.page.locator(".devices .device.level-good")).to_have_count(2)
    admin.page.get_by_label("Colour by").select_option("health")
    expect(admin.page.locator(".devices .device.level-good")).to_have_count(4)
    admin.page.get_by_label("Colour by").select_option("user")
    expect(admin.page.locator(".legend").first).to_contain_text("free")


def test_a_grant_is_made_and_is_in_the_history_and_the_chart(admin: Tab) -> None:
    admin.go("/budget?project=speech")
    admin.page.get_by_role("button", name="Grant", exact=True).click()
    dialog = admin.page.get_by_role("dialog")
    dialog.get_by_label("Device-hours").fill("5")
    dialog.get_by_label("Reason, for the history").fill("a second one")
    expect(dialog).to_contain_text("lockstep budget grant speech 300 --until")
    dialog.get_by_role("button", name="Grant", exact=True).click()
    admin.sees("a second one")
    admin.sees("Grant of 5.0 h")
    expect(admin.page.locator(".burn polyline.plan")).to_be_visible()
    grants = of_json(admin.cluster, "budget", "show", "speech")["budgets"][0]["grants"]
    assert sorted(grant["granted_minutes"] for grant in grants) == [300, 600]


def test_members_get_another_role(admin: Tab) -> None:
    admin.go("/settings")
    admin.page.get_by_label("Role of mia in speech").select_option("manager")

    def role() -> str:
        users = of_json(admin.cluster, "user", "ls")["users"]
        return str(next(user["projects"]["speech"] for user in users if user["name"] == "mia"))

    wait_until("mia is a manager", lambda: role() == "manager")
    admin.page.get_by_label("Role of mia in speech").select_option("member")
    wait_until("mia is a member", lambda: role() == "member")


def test_a_member_sees_the_plan_of_a_run_and_submits_it(browser: Browser, staffed: Cluster) -> None:
    token = staffed.ok("token", "create", "--user", "mia").split()[-1]
    for tab in opened(browser, staffed, token):
        tab.page.get_by_role("link", name="Submit").click()
        tab.page.get_by_label("Project").select_option("speech")
        tab.sees("Type a command")
        tab.page.get_by_label("Command", exact=True).fill("python -c 'print(7 * 6)'")
        tab.page.get_by_label("Folder in which the ranks start").fill("/")
        tab.page.get_by_label("Devices a node").fill("2")
        tab.page.get_by_label("Time limit").fill("30m")
        plan = tab.page.locator(".submit-plan")
        expect(plan).to_contain_text("at once")
        expect(plan).to_contain_text("at most 60 min")
        tab.page.get_by_label("Nodes").fill("3")
        expect(plan).to_contain_text("the map has 2 hosts")
        tab.page.get_by_label("Nodes").fill("2")
        expect(plan).to_contain_text("waits for speech/1")
        tab.page.get_by_label("Nodes").fill("1")
        expect(plan).to_contain_text("at once")
        plan.get_by_role("button", name="Submit").click()
        tab.page.wait_for_url(re.compile(r"/runs/speech/\d+$"), timeout=PATIENCE * 1000)
        run = tab.page.url.partition("/runs/")[2]
        assert staffed.ended(run)["state"] == "succeeded"


def test_a_viewer_is_offered_nothing_that_the_daemon_would_refuse(
    browser: Browser, staffed: Cluster
) -> None:
    made = staffed.ok("token", "create", "--user", "vera", "--project", "speech").split()[-1]
    for tab in opened(browser, staffed, made):
        expect(tab.page.get_by_role("link", name="Submit")).to_have_count(0)
        tab.go("/submit")
        tab.sees("You may submit to no project")
        tab.go("/cluster")
        tab.sees("vm-1")
        for name in ("Add a host", "⋯"):
            assert tab.page.get_by_role("button", name=name).count() == 0
        tab.go("/budget?project=speech")
        tab.sees("History of speech")
        for name in ("Grant", "Move", "Withdraw"):
            assert tab.page.get_by_role("button", name=name, exact=True).count() == 0
        tab.go("/settings")
        tab.sees("mia, member")
        for heading in ("Users", "Notices"):
            assert tab.page.get_by_role("heading", name=heading).count() == 0
        assert tab.page.get_by_label("Role of mia in speech").count() == 0


def test_the_collectives_of_ranks_are_lanes(admin: Tab, tmp_path: Path) -> None:
    script = f"{PROGRAM} probe > {tmp_path}/probe-$RANK && touch {tmp_path}/met-$RANK && sleep 600"
    words = ["--project", "speech", "-n", "2", "--timeout", "10m", "--", "sh", "-c", script]
    run = admin.cluster.submit(*words)
    wait_until("all have met", lambda: len(list(tmp_path.glob("met-*"))) == 2)
    admin.go(f"/runs/{run}/flight")
    admin.sees("2 of 2 ranks")
    lanes = admin.page.locator(".card").first.locator(".lane")
    expect(lanes).to_have_count(2)
    expect(lanes.first.locator("rect.done")).not_to_have_count(0)
    expect(admin.page.get_by_text("stuck")).to_have_count(0)
    assert admin.serious_faults() == []
    admin.page.screenshot(path=PICTURES / "flight-dark-1440.png")
    admin.cluster.ok("stop", run)
    admin.cluster.ended(run)
