"""Ten clients that log without pause, and queries meanwhile."""

from __future__ import annotations

import multiprocessing
import statistics
import time

from _insight.connection import Connection
from _insight.daemon import Daemon
from _insight.queries import API, PIXELS, lockstep_name, milliseconds
from _insight.rows import say, say_time

CLIENTS = 10
METRICS = 1000
STEPS_PER_SECOND = 10


def log(address: tuple[str, int], token: str, run: str, begun: float, steps: int) -> None:
    """A step of all metrics each tenth of a second. A late client does not skip steps."""
    connection = Connection(address, token)
    for step in range(steps):
        time.sleep(max(0.0, begun + step / STEPS_PER_SECOND - time.time()))
        metrics = [
            {"key": f"m{metric}", "value": metric + step, "timestamp": 100 * step, "step": step}
            for metric in range(METRICS)
        ]
        connection.send(connection.batch(run, metrics))


def measure_load(daemon: Daemon, seconds: int) -> None:
    connection = Connection(daemon.address, daemon.token)
    runs = [connection.make_run() for _ in range(CLIENTS)]
    steps = seconds * STEPS_PER_SECOND
    begun = time.time() + 1
    clients = [
        multiprocessing.Process(
            target=log, args=(daemon.address, daemon.token, run, begun, steps), daemon=True
        )
        for run in runs
    ]
    for client in clients:
        client.start()
    taken = []
    while any(client.is_alive() for client in clients):
        run = runs[len(taken) % CLIENTS]
        metric = f"m{len(taken) % METRICS}"
        target = f"{API}/runs/{lockstep_name(run)}/metrics?name={metric}&pixels={PIXELS}"
        taken.append(milliseconds(lambda target=target: connection.call("GET", target)))
        time.sleep(0.1)
    late = time.time() - begun - seconds
    failed = [client.exitcode for client in clients if client.exitcode]
    if failed:
        raise RuntimeError(f"{len(failed)} clients failed")
    lost, expected = lost_points(connection, runs, steps)
    case = f"{CLIENTS} clients x {METRICS} metrics, 10 steps/s, {seconds} s"
    say(f"{case}: points lost", "points", ours=lost, expected=float(expected))
    say(f"{case}: the clients' delay at the end", "s", ours=max(0.0, late))
    say_time(f"{case}: query, median", statistics.median(taken), 100)
    memory = daemon.process_status("VmHWM") / 1024
    say(f"{case}: memory of the daemon, at most", "MB", ours=memory, ratio=512 / memory, bar=1)


def lost_points(connection: Connection, runs: list[str], steps: int) -> tuple[int, int]:
    """The points of every series that the daemon does not have, and how many there should be."""
    stored = 0
    for run in runs:
        for metric in range(METRICS):
            target = f"{API}/runs/{lockstep_name(run)}/metrics?name=m{metric}&pixels=1"
            stored += sum(s["total"] for s in connection.call("GET", target)["series"])
    expected = len(runs) * METRICS * steps
    return expected - stored, expected
