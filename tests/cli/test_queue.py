"""The waiting runs and their reasons, start estimates, and changes by users and operators."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster, wait_until

SLEEP = ("--", "sleep", "100")


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Cluster]:
    """Two hosts of one device; `default/1` runs on both, `default/2` waits for it."""
    cluster = Cluster(tmp_path / "home")
    cluster.serve("2x1")
    cluster.submit("-n", "2", "--timeout", "30m", *SLEEP)
    cluster.submit("-n", "2", "--name", "next", *SLEEP)
    yield cluster
    cluster.close()


def hosts(cluster: Cluster) -> list[str]:
    return [host["id"] for host in json.loads(cluster.ok("host", "ls", "--json"))["hosts"]]


def test_the_queue_shows_who_waits_for_whom_and_until_when(busy: Cluster) -> None:
    busy.submit("--name", "third", *SLEEP)
    header, *rows = busy.ok("queue").splitlines()
    assert header.split()[:3] == ["RUN", "NAME", "USER"]
    assert rows[0].split()[1:3] == ["default/2", "next"]
    assert "waits for default/1: needs 2 hosts with 1 free device, 0 have them" in rows[0]
    assert "in about 30m" in rows[0] or "in about 29m" in rows[0]
    assert "default/3" in rows[1] and "waits behind default/2" in rows[1]
    queue = json.loads(busy.ok("queue", "--json"))
    first = queue["waiting"][0]
    assert (first["run"], first["blocker"]) == ("default/2", "default/1")
    assert first["expected_start"] == queue["allocations"][0]["expected_end"]
    assert [run["reserved"] for run in queue["waiting"]] == [True, False]
    assert "and 1 more" in busy.ok("queue", "--limit", "1")


def test_nobody_waits(cluster: Cluster) -> None:
    assert cluster.ok("queue") == "no run waits; no runs hold devices\n"


def without_times(sentence: str) -> str:
    """The common text of two commands that run one after the other."""
    return re.sub(r" in (about )?[\dhms ]+", "", sentence)


def test_why_says_it_in_a_sentence_and_draws_who_ends_when(busy: Cluster) -> None:
    sentence, blank, scale, holder, waits = busy.ok("why", "2").splitlines()
    assert sentence.startswith("default/2 waits for default/1: needs 2 hosts")
    assert "It starts in about " in sentence and ", at the latest in " in sentence
    assert sentence.endswith("; no run stands before it")
    assert blank == "" and scale.split()[0] == "now"
    assert holder.startswith("default/1  █") and holder.endswith(", the blocker")
    assert waits.startswith("default/2 ") and "░" in waits
    report = json.loads(busy.ok("why", "2", "--json"))
    assert without_times(report["sentence"]) == without_times(sentence) != sentence
    assert report["blocker"] == "default/1" == report["allocations"][0]["run"]
    assert "by its time-out it ends in " in busy.ok("why", "1")


def test_the_run_starts_when_its_blocker_ends(busy: Cluster) -> None:
    blocker = json.loads(busy.ok("why", "2", "--json"))["blocker"]
    busy.ok("stop", blocker)
    busy.wait_for("default/2", "starting", "running")


def test_a_plan_says_where_and_when_and_submits_nothing(busy: Cluster, tmp_path: Path) -> None:
    waits = busy.ok("run", "--plan", *SLEEP)
    assert waits.startswith("1 node x 1 device would wait: it waits behind default/2")
    assert waits.endswith(
        "; 1 run stands before it\nIt would cost at most 60 device-minutes\nNothing was submitted\n"
    )
    assert "It would start in about " in waits and ", at the latest in " in waits
    busy.ok("stop", "2")
    busy.ok("stop", "1")
    busy.ended("default/1")
    assert f"would start at once on {hosts(busy)[0]} (0)" in busy.ok("run", "--plan", *SLEEP)
    plan = json.loads(busy.ok("run", "--plan", "--json", "-n", "2", *SLEEP))
    assert plan["starts"] and len(plan["places"]) == 2
    assert len(json.loads(busy.ok("ps", "--json"))["runs"]) == 2
    assert "needs 3 hosts" in refused(busy, "run", "--plan", "-n", "3", *SLEEP)


def test_a_held_run_waits_until_it_is_released(busy: Cluster) -> None:
    assert "held by " in busy.ok("hold", "2", "--reason", "new data comes")
    assert "`lockstep release default/2` lets it start" in busy.ok("why", "2")
    third = busy.submit(*SLEEP)
    busy.ok("stop", "1")
    busy.wait_for(third, "starting", "running")
    assert busy.show("default/2")["state"] == "queued"
    busy.ok("stop", third)
    busy.ok("release", "2")
    busy.wait_for("default/2", "starting", "running")
    events = busy.show("default/2")["events"]
    assert [event["what"] for event in events] == ["held: new data comes", "released"]
    assert all(event["by"] for event in events)
    assert "held: new data comes by " in busy.ok("show", "2")
    assert "only a run that waits can be held" in refused(busy, "hold", "2")


def test_a_higher_priority_starts_first(busy: Cluster) -> None:
    third = busy.submit("-n", "2", *SLEEP)
    assert busy.ok("priority", third, "10") == f"{third} has priority 10\n"
    waiting = json.loads(busy.ok("queue", "--json"))["waiting"]
    assert [run["run"] for run in waiting] == [third, "default/2"]
    assert "from -100 to 100, got '101'" in refused(busy, "priority", third, "101")


def test_runs_that_follow_others_or_start_later(busy: Cluster) -> None:
    follows = busy.submit("--after", "2", *SLEEP)
    assert busy.show(follows)["reason"] == "waits until default/2 has succeeded"
    later = busy.submit("--not-before", "1h", *SLEEP)
    assert "does not start before 20" in busy.show(later)["reason"]
    shown = busy.ok("queue")
    assert follows in shown and later in shown
    busy.ok("stop", "2")
    assert "default/2, after which it was to start, was cancelled" in busy.ended(follows)["reason"]
    assert "after: there is no run default/99" in refused(busy, "run", "--after", "99", *SLEEP)
    assert "write a moment" in refused(busy, "run", "--not-before", "noon", *SLEEP)


def test_a_class_is_a_promise(busy: Cluster, tmp_path: Path) -> None:
    run = busy.submit("--class", "debug", "--timeout", "10m", "--priority", "3", *SLEEP)
    spec = busy.show(run)["spec"]
    assert (spec["class"], spec["priority"]) == ("debug", 3)
    assert "class       debug, priority 3" in busy.ok("show", run)
    line = refused(busy, "run", "--class", "debug", "--timeout", "2h", *SLEEP)
    assert "a run of class debug takes at most 1h, got 2h" in line
    assert "none of debug, normal" in refused(busy, "run", "--class", "bug", *SLEEP)
    file = tmp_path / "run.yaml"
    file.write_text("command: [sleep, '100']\nclass: debug\ntimeout: 3h\n")
    assert "run.yaml:3: timeout: a run of class debug" in refused(busy, "run", str(file))


def test_hosts_are_listed_cordoned_and_released(busy: Cluster) -> None:
    rows = busy.ok("host", "ls").splitlines()
    assert len(rows) == 3 and "default/1" in rows[1] and " open " in rows[1]
    name = hosts(busy)[1]
    shown = busy.ok("host", "cordon", name, "--reason", "its fan is loud")
    assert "cordoned" in shown and ": its fan is loud" in shown
    host = json.loads(busy.ok("host", "ls", name, "--json"))["hosts"][0]
    assert host["state"] == "closed" and host["events"][0]["what"] == "cordoned: its fan is loud"
    busy.kill_daemon()
    host = json.loads(busy.ok("host", "ls", name, "--json"))["hosts"][0]
    assert host["state"] == "closed", "the store keeps it"
    assert "open" in busy.ok("host", "release", name)
    assert "there is no host 'x'" in refused(busy, "host", "cordon", "x")
    assert "name a host" in refused(busy, "host", "drain")
    assert "write one of ls|cordon|drain|release" in refused(busy, "host", "shut", name)


def test_limits_are_set_shown_and_lifted(busy: Cluster) -> None:
    assert busy.ok("limits").startswith("no limits; ")
    shown = busy.ok("limits", "--project", "demo", "--devices", "1").splitlines()
    assert shown[1].split() == ["project", "demo", "1", "0", "1", "-"]
    line = refused(busy, "run", "--project", "demo", "-n", "2", *SLEEP)
    assert "needs 2 devices, and the project demo may hold 1 at once" in line
    assert json.loads(busy.ok("limits", "--json"))["limits"][0]["devices"] == 1
    assert busy.ok("limits", "--project", "demo", "--lift").startswith("no limits; ")
    assert "whose limit is meant" in refused(busy, "limits", "--devices", "3")
    weighed = busy.ok("limits", "--project", "demo", "--weight", "2").splitlines()
    assert weighed[1].split()[:3] == ["project", "demo", "-"]
    assert weighed[1].split()[-2] == "2"
    assert busy.ok("limits", "--project", "demo", "--weight", "1").startswith("no limits; ")
    wait_until("nothing was submitted", lambda: len(busy.ok("ps").splitlines()) == 3)
