"""Queries: long curves after a restart, one chart of many runs, filtered and sorted lists."""

from __future__ import annotations

import http.client
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from _insight.connection import MLFLOW, Connection
from _insight.daemon import Daemon
from _insight.rows import say_time
from _insight.servers import environment, free_port, mlflow_server, server

API = "/api/v1"
PIXELS = 1000
CALLS = 15
EVENTS = Path(__file__).with_name("event_file.py")


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def median_of(call: Callable[[], object]) -> float:
    return statistics.median(milliseconds(call) for _ in range(CALLS))


def lockstep_name(run_id: str) -> str:
    return "/".join(run_id.rsplit("-", 1))


def fill(connection: Connection, run: str, points: int) -> None:
    """One series of so many points."""
    for first in range(0, points, 1000):
        steps = range(first, min(first + 1000, points))
        metrics = [
            {"key": "loss", "value": 1 + step % 977 / 977, "timestamp": step, "step": step}
            for step in steps
        ]
        connection.send(connection.batch(run, metrics))


def measure_long_curve(daemon: Daemon, packages: Path, points: int, peer_points: int) -> None:
    """The first query of a curve after a restart, and TensorBoard's time until it has one."""
    connection = Connection(daemon.address, daemon.token)
    run = connection.make_run()
    fill(connection, run, points)
    daemon.stop()
    daemon.start()
    connection = Connection(daemon.address, daemon.token)
    target = f"{API}/runs/{lockstep_name(run)}/metrics?name=loss&pixels={PIXELS}"
    first = milliseconds(lambda: connection.call("GET", target))
    later = median_of(lambda: connection.call("GET", target))
    peer = tensorboard_milliseconds(packages, peer_points) * points / peer_points
    say_time(f"first curve of {points:,} points", first, 50, peer, "tensorboard")
    say_time(f"curve of {points:,} points", later, 50)


def tensorboard_milliseconds(packages: Path, points: int) -> float:
    """From its start until it answers with the last step."""
    with tempfile.TemporaryDirectory() as folder:
        writing = [sys.executable, str(EVENTS), folder, str(points)]
        subprocess.run(writing, env=environment(packages), check=True)
        port = free_port()
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder]
        command += ["--port", str(port), "--load_fast", "false"]
        begun = time.perf_counter()
        with server(command, packages, port, "/data/environment"):
            while last_step(port) != points - 1:
                time.sleep(0.02)
            return 1e3 * (time.perf_counter() - begun)


def last_step(port: int) -> int | None:
    """The last step that TensorBoard answers with; None if it has not read the file so far."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", "/data/plugin/scalars/scalars?run=.&tag=loss")
        answer = connection.getresponse()
        points = json.loads(answer.read()) if answer.status == 200 else []
        return int(points[-1][1]) if points else None
    finally:
        connection.close()


def measure_chart(daemon: Daemon, runs: int, points: int) -> None:
    """One chart with a curve of each of the runs."""
    connection = Connection(daemon.address, daemon.token)
    made = [connection.make_run() for _ in range(runs)]
    for run in made:
        fill(connection, run, points)
    names = quote(",".join(map(lockstep_name, made)))
    request = connection.request("GET", f"{API}/curves?metric=loss&runs={names}&pixels={PIXELS}")

    def chart() -> None:
        curves = json.loads(connection.send(request))["curves"]
        if len(curves) != runs:
            raise RuntimeError(f"{len(curves)} of {runs} curves")

    say_time(f"a chart of {runs} runs x {points:,} points", median_of(chart), 100)


def copy_run(database: sqlite3.Connection, number: int, copies: int) -> None:
    """Rows of further runs, as the daemon stores them."""
    for table in ("runs", "latest_metrics", "mlflow_runs"):
        columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
        shown = ", ".join(
            "n.value"
            if name == "number"
            else "nullif(n.value % 7919, 0) * 0.001"
            if table == "latest_metrics" and name in ("value", "least", "greatest")
            else "null"
            if name == "request_id"
            else f"t.{name}"
            for name in columns
        )
        database.execute(
            f"with recursive n(value) as (select ? union all select value + 1 from n "
            f"where value < ?) insert into {table} ({', '.join(columns)}) "
            f"select {shown} from {table} t, n where t.number = ?",
            (number + 1, number + copies, number),
        )
    database.commit()


def wait_for_end(connection: Connection, run: str) -> None:
    limit = time.monotonic() + 60
    while connection.call("GET", f"{API}/runs/{lockstep_name(run)}")["ended"] is None:
        if time.monotonic() > limit:
            raise RuntimeError(f"{run} does not end")
        time.sleep(0.05)


def make_copies(daemon: Daemon, runs: int, *more: Callable[[sqlite3.Connection, int], None]) -> str:
    """Makes a run that ends, and that many copies of it in the database; the id of the run.

    Args:
        more: further changes of the database, with the number of the run.
    """
    connection = Connection(daemon.address, daemon.token)
    run = connection.make_run()
    fill(connection, run, 10)
    end = {"run_id": run, "status": "FINISHED", "end_time": 1_700_000_000_000}
    connection.call("POST", f"{MLFLOW}runs/update", end)
    wait_for_end(connection, run)
    connection.close()
    daemon.stop()
    number = int(run.rsplit("-", 1)[1])
    with sqlite3.connect(daemon.home / "lockstep.db") as database:
        copy_run(database, number, runs)
        for change in more:
            change(database, number)
    daemon.start()
    return run


def measure_list(daemon: Daemon, packages: Path, runs: int) -> None:
    """Runs filtered by user and time and sorted by the least loss, beside MLflow's search_runs."""
    run = make_copies(daemon, runs)
    connection = Connection(daemon.address, daemon.token)
    user = connection.call("GET", f"{API}/runs/{lockstep_name(run)}")["origin"]["user"]
    target = (
        f"{API}/runs?sort=loss&value=min&user={quote(user)}&since=2001-01-01T00:00:00Z&limit=50"
    )
    found = connection.call("GET", target)["runs"]
    assert len(found) == 50, len(found)
    ours = median_of(lambda: connection.call("GET", target))
    # With 100,000 runs MLflow does not answer within two minutes.
    peer_runs = runs // 10
    peer = mlflow_search_milliseconds(packages, peer_runs)
    case = f"{runs:,} runs filtered and sorted, MLflow: {peer_runs:,}"
    say_time(case, ours, 50, peer, "mlflow")


LINES = (
    "lr=1.234",  # 13 runs of 100,000
    "lr>=4 sort:-loss",  # half of them
    "sort:lr",
    "sort:-loss",
    "lr<0.5 submitted>2000-01-01 sort:lr",
    "train.py -state:finished",
    '"no such words"',
    "host:none",
    "group:lr sort:loss",
)


def measure_query_lines(daemon: Daemon, runs: int) -> None:
    """The first answer to query lines of runs with a setting and a metric."""
    make_copies(daemon, runs, copy_values)
    connection = Connection(daemon.address, daemon.token)
    for line in LINES:
        target = f"{API}/runs?limit=50&query={quote(line)}"
        answer = connection.call("GET", target)
        found = f"{len(answer['runs'])} runs" if not answer["groups"] else "groups"
        more = ", next" if answer["next"] else ""
        took = median_of(lambda target=target: connection.call("GET", target))
        say_time(f"{runs:,} runs, query {line} ({found}{more})", took, 50)


def copy_values(database: sqlite3.Connection, number: int) -> None:
    """The copies have the values of the run, another `lr` each, and were submitted one by one."""
    database.execute(
        "insert or ignore into run_values (project, number, name, text, value) "
        "select r.project, r.number, v.name, v.text, v.value from runs r join run_values v "
        "on v.project = r.project and v.number = ? where r.number > ?",
        (number, number),
    )
    database.execute(
        "insert into run_values (project, number, name, text, value) "
        "select project, number, 'lr', (number % 7919) * 0.001, (number % 7919) * 0.001 from runs"
    )
    database.execute("update runs set submitted = submitted + 1000 * number")
    database.commit()


def mlflow_search_milliseconds(packages: Path, runs: int) -> float:
    """search_runs by its server on rows that SQL has put into its database."""
    with tempfile.TemporaryDirectory() as name:
        with mlflow_server(packages, Path(name)) as address:
            connection = Connection(address)
            run = connection.make_run()
            fill(connection, run, 10)
        with sqlite3.connect(Path(name) / "mlflow.db") as database:
            copy_mlflow_run(database, run, runs)
        with mlflow_server(packages, Path(name)) as address:
            connection = Connection(address)
            body = {
                "experiment_ids": ["0"],
                "filter": "metrics.loss < 5",
                "order_by": ["metrics.loss ASC"],
                "max_results": 50,
            }
            search = connection.request("POST", f"{MLFLOW}runs/search", body)
            assert len(json.loads(connection.send(search))["runs"]) == 50
            return statistics.median(
                milliseconds(lambda: connection.send(search)) for _ in range(3)
            )


def copy_mlflow_run(database: sqlite3.Connection, run: str, copies: int) -> None:
    for table, key in (("runs", "run_uuid"), ("latest_metrics", "run_uuid"), ("tags", "run_uuid")):
        columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
        shown = ", ".join(
            "printf('%032d', n.value)"
            if name == key
            else "(n.value % 7919) * 0.001"
            if table == "latest_metrics" and name == "value"
            else f"t.{name}"
            for name in columns
        )
        database.execute(
            f"with recursive n(value) as (select 1 union all select value + 1 from n where "
            f"value < ?) insert into {table} ({', '.join(columns)}) "
            f"select {shown} from {table} t, n where t.{key} = ?",
            (copies, run),
        )
    database.commit()
