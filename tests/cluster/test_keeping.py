"""The data that the daemon keeps and removes: docs/design/keeping.md."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

from tests.conftest import Cluster, wait_until


def node_folder(cluster: Cluster, run: str, epoch: int = 1) -> Path:
    return cluster.attempt_folder(run, epoch) / "node-0"


def agent_of(cluster: Cluster, run: str) -> int:
    pid: int = cluster.show(run)["attempts"][-1]["nodes"][0]["agent_pid"]
    return pid


def test_an_ended_run_leaves_its_logs_and_nothing_secret(cluster: Cluster) -> None:
    run = cluster.submit("--", "echo", "done")
    cluster.ended(run)
    folder = node_folder(cluster, run)
    wait_until("it is cleared up", lambda: not (folder / "launch.json").exists())
    assert {path.name for path in folder.iterdir()} == {
        *("agent.lock", "agent.log", "flight", "profile", "rank-0.log")
    }


def test_what_a_killed_agent_had_not_sent_counts_once(cluster: Cluster) -> None:
    script = (
        "[ $LOCKSTEP_EPOCH = 1 ] || exit 0; "
        "i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); sleep 0.02; done; sleep 1000"
    )
    run = cluster.submit("--", "sh", "-c", script)
    wait_until("it has said something", lambda: len(cluster.logs(run)) > 3)
    agent = agent_of(cluster, run)
    cluster.kill_daemon()
    rank_log = node_folder(cluster, run) / "rank-0.log"
    wait_until("all lines are in its file", lambda: "line 49" in rank_log.read_text())
    spool = node_folder(cluster, run) / "spool"
    wait_until("and in the spool", lambda: "line 49" in spool.read_text())
    os.kill(agent, signal.SIGKILL)
    cluster.ok("ps")  # starts the next daemon
    cluster.ended(run)
    folder = node_folder(cluster, run)
    wait_until("it is cleared up", lambda: not (folder / "launch.json").exists())
    assert cluster.logs(run) == [f"line {number}" for number in range(50)]
    assert not spool.exists()


def test_old_logs_go_and_metrics_stay(idle: Cluster) -> None:
    idle.serve("1x1", "--keep-logs", "0s")
    script = (
        "import json, os, socket\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(os.environ['LOCKSTEP_REPORT'])\n"
        "s.sendall(json.dumps({'kind': 'metrics', 'step': 1, 'values': {'loss': 2.5}}).encode()"
        " + b'\\n')\n"
        "print('a line')\n"
    )
    run = idle.submit("--", "python3", "-c", script)
    idle.ended(run)
    idle.ok("serve", "--stop")
    idle.serve("1x1", "--keep-logs", "0s")  # begins with a round through all nodes
    folder = node_folder(idle, run)
    wait_until("its files are gone", lambda: not folder.exists())
    wait_until("its lines are gone", lambda: "were removed" in idle.ok("logs", run))
    series = json.loads(idle.ok("metrics", run, "--json"))["series"]
    assert [point["value"] for point in series[0]["points"]] == [2.5]


def test_a_store_of_a_newer_lockstep_is_refused_and_left_as_it_is(idle: Cluster) -> None:
    idle.serve("1x1")
    idle.ok("serve", "--stop")
    store = idle.home / "lockstep.db"
    with sqlite3.connect(store) as database:
        known = database.execute("select version from schema_version").fetchone()[0]
        database.execute("update schema_version set version = 9999")
    database.close()
    before = store.read_bytes()
    for words in (("serve",), ("serve", "--detach"), ("ps",)):
        refused = idle.command(*words)
        assert refused.returncode != 0
        said = refused.stderr.strip().splitlines()
        assert len(said) == 1, refused.stderr
        for part in (str(store), "newer Lockstep", "9999", str(known), "LOCKSTEP_HOME"):
            assert part in said[0]
    assert store.read_bytes() == before


def test_a_folder_in_the_place_of_the_store_is_named(idle: Cluster) -> None:
    (idle.home / "lockstep.db").mkdir(parents=True)
    refused = idle.command("serve")
    assert refused.returncode != 0
    assert "lockstep.db is a folder" in refused.stderr
