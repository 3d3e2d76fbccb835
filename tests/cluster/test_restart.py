"""A daemon that restarts: at another port, with a large store, after a time-out without it."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path

from tests.conftest import Cluster, reserved_port, wait_until

RUNS = 10_000
ANSWER_SECONDS = 2.0 * 5  # five times the bar, for a machine that does other things as well


def test_agents_find_a_daemon_that_came_back_at_another_port(idle: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with reserved_port() as first, reserved_port() as second:
        idle.serve("2x2", "--port", str(first))
        run = idle.submit(
            "-n", "2", "--", "sh", "-c",
            f"echo before; while ! test -e {gate}; do sleep 0.05; done; echo after",
        )  # fmt: skip
        idle.running_ranks(run)
        idle.kill_daemon()
        idle.serve("2x2", "--port", str(second))
        assert idle.daemon_port() == second
    gate.touch()
    view = idle.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
    lines = sorted(line.split("] ")[1] for line in idle.logs(run))
    assert lines == ["after", "after", "before", "before"]


def test_a_time_out_is_kept_by_the_agents_while_no_daemon_is_there(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "--timeout", "4s", "--", "sleep", "1000")
    ranks = {rank["pid"] for rank in cluster.running_ranks(run)}
    cluster.kill_daemon()
    wait_until("the ranks have ended", lambda: not ranks & set(cluster.processes()))
    assert not is_served(cluster)
    cluster.serve()
    view = cluster.ended(run)
    assert view["state"] == "timed_out"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["timeout"]


def is_served(cluster: Cluster) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", cluster.daemon_port())) == 0


def multiply(store: Path, project: str, number: int, copies: int) -> None:
    """Copies of a run with all of its rows, under the numbers that follow."""
    with sqlite3.connect(store) as database:
        tables = [
            row[0]
            for row in database.execute("select name from sqlite_master where type = 'table'")
        ]
        for table in tables:
            columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
            if {"project", "number"} <= set(columns):
                copy(database, table, columns, project, number, copies)
    database.close()


def copy(
    database: sqlite3.Connection,
    table: str,
    columns: list[str],
    project: str,
    number: int,
    copies: int,
) -> None:
    kept = [name for name in columns if name not in ("number", "id", "cursor", "request_id")]
    names = ", ".join(kept)
    database.execute(
        "with recursive copies(n) as (select 1 union all select n + 1 from copies where n < ?) "
        f"insert into {table} (number, {names}) select number + n, {names} "
        f"from {table}, copies where project = ? and number = ?",
        (copies, project, number),
    )  # fmt: skip


def test_a_daemon_with_ten_thousand_runs_answers_soon(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "-g", "2", "--", "echo", "line")
    assert cluster.ended(run)["state"] == "succeeded"
    waiting = cluster.submit("--project", "waiting", "-n", "2", "-g", "2", "--", "sleep", "1000")
    cluster.running_ranks(waiting)
    cluster.ok("serve", "--stop")
    multiply(cluster.home / "lockstep.db", "default", 1, RUNS)

    began = time.monotonic()
    cluster.serve()
    seconds = time.monotonic() - began
    print(f"{seconds:.3f} s from the daemon's start to its answer with {RUNS} runs")
    assert seconds < ANSWER_SECONDS
    assert len(cluster.show(f"default/{RUNS + 1}")["attempts"][0]["nodes"]) == 2
    assert cluster.submit("--", "true") == f"default/{RUNS + 2}"
    assert cluster.show(waiting)["state"] == "running"
