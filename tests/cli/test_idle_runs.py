"""Runs that do not use their devices, by the policy of their project."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_bad_input import refused

from tests.conftest import Cluster

SAVES = """
import signal, sys, time
def save(number, frame):
    open(sys.argv[1], "w").write("saved")
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
while True:
    time.sleep(0.5)
"""


def test_an_idle_run_is_warned_gets_its_grace_period_and_is_not_tried_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.ok("project", "add", "demo")
    shown = cluster.ok("limits", "--project", "demo", "--idle-stop", "20s")
    assert "IDLE STOP" in shown and "20s" in shown
    program, saved = tmp_path / "idle.py", tmp_path / "saved"
    program.write_text(SAVES)
    run = cluster.submit(
        "--project", "demo", "--retries", "3", "--", "python3", str(program), str(saved)
    )
    busy = cluster.submit("--project", "demo", "--", "sh", "-c", "while :; do :; done")
    view = cluster.ended(run)
    assert view["state"] == "cancelled"
    assert view["reason"] == "did not use its devices for 20s"
    (attempt,) = view["attempts"]
    assert attempt["cause"] == "idle"
    events = [event["what"] for event in cluster.show(run)["events"]]
    assert sum("it has not used its devices since" in event for event in events) == 1, events
    assert any("and is stopped at" in event for event in events), events
    assert saved.read_text() == "saved"
    assert cluster.show(busy)["state"] == "running"


def test_policies_are_set_shown_and_refused(cluster: Cluster) -> None:
    cluster.ok("limits", "--project", "demo", "--idle-stop", "off")
    (limit,) = json.loads(cluster.ok("limits", "--json"))["limits"]
    assert (limit["idle_stop"], limit["devices"]) == ("off", None)
    cluster.ok("limits", "--project", "demo", "--devices", "3")
    (limit,) = json.loads(cluster.ok("limits", "--json"))["limits"]
    assert (limit["idle_stop"], limit["devices"]) == ("off", 3)
    cluster.ok("limits", "--project", "demo", "--idle-stop", "default")
    (limit,) = json.loads(cluster.ok("limits", "--json"))["limits"]
    assert (limit["idle_stop"], limit["devices"]) == ("", 3)
    for words, part in (
        (("--project", "demo", "--idle-stop", "1s"), "idle_stop: must be from 20s to"),
        (("--project", "demo", "--idle-stop", "0s"), "write off"),
        (("--project", "demo", "--idle-stop", "soon"), "idle_stop"),
        (("--user", "ann", "--idle-stop", "1h"), "--idle-stop"),
    ):
        assert part in refused(cluster, "limits", *words), words
    assert "idle_stop 20s" not in cluster.ok("audit")
    assert "idle_stop off" in cluster.ok("audit")
