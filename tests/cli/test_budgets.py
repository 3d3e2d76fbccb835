"""Budgets, typed as an admin and as a manager."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_bad_input import refused
from tests.cli.test_people import log_in

from tests.conftest import Cluster, Laptop, wait_until

WRONG = (
    (("frob",), ["there is no action 'frob'", "show|grant|withdraw"]),
    (("grant", "demo"), ["budget grant: write `lockstep budget grant PROJECT MINUTES`"]),
    (("grant", "demo", "10"), ["--until is missing"]),
    (("grant", "demo", "-5", "--until", "30d"), ["'-5' is no amount"]),
    (("grant", "demo", "many", "--until", "30d"), ["'many' is no amount"]),
    (("grant", "demo", "5", "--until", "soon"), ["--until: 'soon' is neither a time"]),
    (("withdraw", "demo", "0"), ["'0' is no amount"]),
    (("move", "demo", "5"), ["budget move: write `lockstep budget move PROJECT TO MINUTES`"]),
    (("lift", "demo", "--until", "30d"), ["takes no --until"]),
    (("rate", "h100", "four"), ["'four' is no weight"]),
    (("history", "demo", "--limit", "0"), ["--limit"]),
    (("usage", "--since", "soon"), ["--since: 'soon' is neither a time"]),
)


@pytest.mark.parametrize(("words", "parts"), WRONG)
def test_wrong_words_are_refused_without_a_daemon(
    words: tuple[str, ...], parts: list[str], idle: Cluster
) -> None:
    line = refused(idle, "budget", *words)
    assert all(part in line for part in parts), line
    assert not idle.home.exists()


def budget_of(cluster: Cluster, project: str) -> Any:
    (found,) = json.loads(cluster.ok("budget", "show", project, "--json"))["budgets"]
    return found


def test_requests_that_cannot_be_change_nothing(cluster: Cluster) -> None:
    cluster.ok("project", "add", "demo")
    cluster.ok("budget", "grant", "demo", "100", "--until", "30d")
    before = cluster.ok("budget", "show"), cluster.ok("budget", "history", "demo")
    for words, part in (
        (("grant", "nowhere", "5", "--until", "30d"), "there is no project nowhere"),
        (("grant", "demo", "5", "--until", "2020-01-01"), "would have ended at 2020-01-01"),
        (("withdraw", "demo", "101"), "has 100 device-minutes available, not 101"),
        (("withdraw", "default", "1"), "the project 'default' has no budget"),
        (("move", "demo", "demo", "1"), "is to move to the project that has it"),
        (("move", "demo", "nowhere", "1"), "there is no project nowhere"),
        (("rate", "h100", "0"), "weight: must be from 0.01"),
        (("usage", "--by", "colour"), "colour"),
    ):
        assert part in refused(cluster, "budget", *words), words
    assert (cluster.ok("budget", "show"), cluster.ok("budget", "history", "demo")) == before


def test_a_run_uses_the_budget_of_its_project_and_waits_when_it_is_used_up(
    cluster: Cluster,
) -> None:
    cluster.ok("project", "add", "demo")
    granted = cluster.ok("budget", "grant", "demo", "90", "--until", "30d", "--reason", "pilot")
    assert granted.startswith("granted 90 device-minutes to demo until 20")
    first = cluster.submit("--project", "demo", "--timeout", "1h", "--", "sleep", "1000")
    assert budget_of(cluster, "demo")["held_minutes"] == 60
    second = cluster.submit("--project", "demo", "--timeout", "1h", "--", "true")
    assert "needs 60 device-minutes of the budget of demo" in cluster.show(second)["reason"]
    assert "needs 60 device-minutes" in cluster.ok("why", second)
    cluster.ok("budget", "grant", "demo", "2h", "--until", "30d")
    assert cluster.ended(second)["state"] == "succeeded"
    cluster.ok("stop", first, "--wait")
    budget = budget_of(cluster, "demo")
    assert budget["held_minutes"] == 0
    assert 0 < budget["spent_minutes"] < 1
    history = cluster.ok("budget", "history", "demo")
    assert "pilot" in history and f"{first}.1" in history and "settle" in history
    rows = list(
        csv.DictReader(io.StringIO(cluster.ok("budget", "usage", "--by", "user,kind", "--csv")))
    )
    assert len(rows) == 1 and rows[0]["ATTEMPTS"] == "2"
    assert "budget.grant" in cluster.ok("audit", "--project", "demo")


def test_a_manager_moves_what_its_project_has_and_only_an_admin_grants(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    cluster.ok("user", "add", "ann")
    for project in ("demo", "other", "hidden"):
        cluster.ok("project", "add", project)
        cluster.ok("budget", "grant", project, "50", "--until", "30d")
    cluster.ok("project", "member", "demo", "ann", "--role", "manager")
    cluster.ok("project", "member", "other", "ann", "--role", "viewer")
    log_in(cluster, "ann", laptop, tmp_path)
    assert "it needs an admin" in refused(laptop, "budget", "grant", "demo", "5", "--until", "1d")
    assert "it needs a manager" in refused(laptop, "budget", "move", "other", "demo", "5")
    assert "there is no project hidden" in refused(laptop, "budget", "move", "demo", "hidden", "5")
    assert "moved 20 device-minutes to other" in laptop.ok("budget", "move", "demo", "other", "20")
    shown = laptop.ok("budget", "show")
    assert "hidden" not in shown and "70" in shown
    assert budget_of(cluster, "other")["available_minutes"] == 70


def test_a_budget_survives_the_death_of_its_daemon(cluster: Cluster) -> None:
    cluster.ok("project", "add", "demo")
    cluster.ok("budget", "grant", "demo", "90", "--until", "30d")
    run = cluster.submit("--project", "demo", "--timeout", "1h", "--", "sleep", "1000")
    before = budget_of(cluster, "demo")
    cluster.kill_daemon()
    cluster.serve()
    assert budget_of(cluster, "demo") == before
    cluster.ok("stop", run, "--wait")
    wait_until("nothing is held", lambda: budget_of(cluster, "demo")["held_minutes"] == 0)
