"""The pages of MLflow and TensorBoard beside ours: a table of runs, and the charts of a run."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from _insight.connection import Connection
from _insight.daemon import Daemon
from _insight.queries import copy_mlflow_run, fill, make_copies
from _insight.rows import in_turns
from _insight.servers import environment, free_port, mlflow_server, peer_packages, server
from playwright.sync_api import Browser, BrowserContext, Response

from _page.charts import wait_for_end
from _page.chromium import PATIENCE, new_context, url_of
from _page.rows import say_beside
from _page.watch import Charts, Table

ROUNDS = 5
METRICS = 50
LOAD_SECONDS = 600.0
EVENTS = Path(__file__).with_name("event_files.py")
LOGS = """
import sys, lockstep
names = [f"group{i % 5}/metric{i}" for i in range(int(sys.argv[1]))]
for step in range(int(sys.argv[2])):
    lockstep.log(dict.fromkeys(names, 1 + step % 977 / 977), step=step)
"""
TABLES = {
    "ours": Table(".runs-body .runs-row", ".runs-body input", ".runs-row.selected"),
    "mlflow": Table(".ag-center-cols-container .ag-row", ".ag-row input", ".ag-row-selected"),
    "tensorboard": Table(
        "tb-data-table-content-row",
        "tb-data-table-content-row input",
        "tb-data-table-content-row .mat-mdc-checkbox-checked",
    ),
}
CHARTS = {
    "ours": Charts(".chart-grid > div", "canvas"),
    "mlflow": Charts(
        "[data-testid=experiment-view-compare-runs-card]", ".scatterlayer path.js-line"
    ),
    "tensorboard": Charts("card-view", ".series-view > canvas, .series-view > svg path"),
}


@dataclass
class Visit:
    """A page that is opened again and again, each time by a browser without a cache."""

    tabs: Browser
    address: str
    watch: Table | Charts
    daemon: Daemon | None = None  # of our page, which needs a log-in
    charts: int = 0
    scripts: dict[str, int] = field(default_factory=dict)  # compressed bytes by address

    def __call__(self) -> float:
        """The milliseconds from the navigation until the page is done."""
        context = new_context(self.tabs, self.daemon) if self.daemon else peer_context(self.tabs)
        context.add_init_script(self.watch.script())
        page = context.new_page()
        answers: list[Response] = []
        page.on("response", lambda answer: answers.append(answer))
        page.goto(self.address)
        page.wait_for_function("window.measured")
        done = float(page.evaluate("window.measured"))
        self.charts = int(page.evaluate("window.measuredCharts ?? 0"))
        self.scripts = {each.url: compressed(each) for each in answers if is_script(each)}
        context.close()
        return done

    @property
    def kilobytes(self) -> float:
        """The scripts of the last visit."""
        return sum(self.scripts.values()) / 1000


def peer_context(tabs: Browser) -> BrowserContext:
    context = tabs.new_context(viewport={"width": 1920, "height": 1080}, bypass_csp=True)
    context.set_default_timeout(PATIENCE)
    return context


def is_script(answer: Response) -> bool:
    return answer.ok and "javascript" in answer.headers.get("content-type", "")


def compressed(answer: Response) -> int:
    """The same compression for all: MLflow's server sends its scripts without any."""
    return len(gzip.compress(answer.body(), 6))


def measure(daemon: Daemon, tabs: Browser, runs: int, points: int) -> None:
    """TensorBoard has a twentieth of the runs: it reads the files of all of them at its start."""
    packages = peer_packages()
    if packages is None:
        return
    fewer = runs // 20
    make_copies(daemon, runs - 1)
    with mlflow_runs(packages, runs) as mlflow, tensorboard(packages, fewer, 1, 10) as board:
        visits = {
            "ours": Visit(tabs, url_of(daemon), TABLES["ours"], daemon),
            "mlflow": Visit(tabs, f"{mlflow}/#/experiments/0/runs", TABLES["mlflow"]),
            "tensorboard": Visit(tabs, f"{board}/#timeseries", TABLES["tensorboard"]),
        }
        times = visit_in_turns(visits)
        for peer, count in (("mlflow", runs), ("tensorboard", fewer)):
            case = f"table of {runs:,} runs answers a click; the peer has {count:,}"
            say_beside(case, "ms", times["ours"], times[peer], peer)
        for peer in ("mlflow", "tensorboard"):
            case = "scripts until the table answers, by gzip"
            say_beside(case, "kb", visits["ours"].kilobytes, visits[peer].kilobytes, peer)
    measure_charts(daemon, tabs, packages, points)


def measure_charts(daemon: Daemon, tabs: Browser, packages: Path, points: int) -> None:
    """One run of one rank, which each of them shows with a chart for each metric."""
    run = make_charts(daemon, points)
    with (
        mlflow_charts(packages, points) as mlflow,
        tensorboard(packages, 1, METRICS, points) as board,
    ):
        visits = {
            "ours": Visit(tabs, f"{url_of(daemon)}/runs/{run}", CHARTS["ours"], daemon),
            "mlflow": Visit(tabs, f"{mlflow}/model-metrics", CHARTS["mlflow"]),
            "tensorboard": Visit(tabs, f"{board}/#timeseries", CHARTS["tensorboard"]),
        }
        times = visit_in_turns(visits)
        for peer in ("mlflow", "tensorboard"):
            case = f"charts in view of {METRICS} metrics x {points:,} points drawn"
            shown = {"charts": visits["ours"].charts, "peer_charts": visits[peer].charts}
            say_beside(case, "ms", times["ours"], times[peer], peer, **shown)


def visit_in_turns(visits: dict[str, Visit]) -> dict[str, float]:
    """The median time of each, after a first visit that does not count."""
    for visit in visits.values():
        visit()
    return dict(zip(visits, in_turns(ROUNDS, *visits.values()), strict=True))


def make_charts(daemon: Daemon, points: int) -> str:
    words = ["run", "--name", "charts", "--detach", "--json"]
    words += ["--", "python3", "-c", LOGS, str(METRICS), str(points)]
    run: str = json.loads(daemon.lockstep(*words))["id"]
    wait_for_end(daemon, run)
    return run


@contextlib.contextmanager
def mlflow_runs(packages: Path, runs: int) -> Iterator[str]:
    """MLflow's server with that many runs, as copies of the rows of one; its address."""
    with tempfile.TemporaryDirectory() as name:
        with mlflow_server(packages, Path(name)) as address:
            connection = Connection(address)
            run = connection.make_run()
            fill(connection, run, 10)
            connection.close()
        with sqlite3.connect(Path(name) / "mlflow.db") as database:
            copy_mlflow_run(database, run, runs - 1)
        with mlflow_server(packages, Path(name)) as (host, port):
            yield f"http://{host}:{port}"


@contextlib.contextmanager
def mlflow_charts(packages: Path, points: int) -> Iterator[str]:
    """MLflow's server with one run of METRICS metrics; the address of the run."""
    with tempfile.TemporaryDirectory() as name:
        with mlflow_server(packages, Path(name)) as address:
            connection = Connection(address)
            run = connection.make_run()
            last = points - 1
            metrics = [
                {"key": f"group{i % 5}/metric{i}", "value": 1, "timestamp": last, "step": last}
                for i in range(METRICS)
            ]
            connection.send(connection.batch(run, metrics))
            connection.close()
        with sqlite3.connect(Path(name) / "mlflow.db") as database:
            database.execute(
                "with recursive steps(step) as "
                "(select 0 union all select step + 1 from steps where step + 2 < ?) "
                "insert into metrics (key, value, timestamp, run_uuid, is_nan, step) "
                "select m.key, 1 + s.step % 977 / 977.0, s.step, m.run_uuid, 0, s.step "
                "from latest_metrics m, steps s",
                (points,),
            )
            database.commit()
        with mlflow_server(packages, Path(name)) as (host, port):
            yield f"http://{host}:{port}/#/experiments/0/runs/{run}"


@contextlib.contextmanager
def tensorboard(packages: Path, runs: int, metrics: int, points: int) -> Iterator[str]:
    """TensorBoard that has read the files of that many runs; its address."""
    with tempfile.TemporaryDirectory() as folder:
        shape = [str(runs), str(metrics), str(points)]
        writing = [sys.executable, str(EVENTS), folder, *shape]
        subprocess.run(writing, env=environment(packages), check=True)
        port = free_port()
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port"]
        command += [str(port), "--load_fast", "false", "--reload_interval", "0"]
        last = metrics - 1
        query = {"run": f"run{runs - 1:05}", "tag": f"group{last % 5}/metric{last}"}
        with server(command, packages, port, "/data/environment"):
            end = time.monotonic() + LOAD_SECONDS
            while not has_step(port, query, points - 1):
                if time.monotonic() > end:
                    raise RuntimeError("TensorBoard does not read its files")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"


def has_step(port: int, query: dict[str, str], step: int) -> bool:
    """True once TensorBoard answers with this step of a run's metric."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", f"/data/plugin/scalars/scalars?{urlencode(query)}")
        answer = connection.getresponse()
        points = json.loads(answer.read()) if answer.status == 200 else []
        return bool(points) and int(points[-1][1]) == step
    finally:
        connection.close()
