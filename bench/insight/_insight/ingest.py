"""Points that arrive: over HTTP, from MLflow's client, and in a training process."""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _contest.contest import BUILD

from _insight.connection import Connection
from _insight.daemon import Daemon
from _insight.rows import in_turns, say, say_rate
from _insight.servers import environment, mlflow_server, nothing_server

BATCH = 1000  # points, the most that MLflow takes in a call
STEPS = 100  # of each metric in a batch
CLIENT = Path(__file__).with_name("mlflow_client.py")
TRAINING = Path(__file__).with_name("training_process.py")


def losses(batch: int) -> list[dict[str, object]]:
    """A batch of ten noisy losses in fp32."""
    noise = random.Random(batch)
    first = batch * STEPS
    return [
        {
            "key": f"loss{metric}",
            "value": as_float32(4 * math.exp(-step / 5000) + 1 + noise.gauss(0, 0.05)),
            "timestamp": 1_700_000_000_000 + 350 * step,
            "step": step,
        }
        for metric in range(BATCH // STEPS)
        for step in range(first, first + STEPS)
    ]


def as_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


class RawClient:
    """Sends batches that were made before; each turn sends further ones."""

    def __init__(self, address: tuple[str, int], token: str, batches: int) -> None:
        self._connection = Connection(address, token)
        self.run = self._connection.make_run()
        self._batches = batches
        self._next = 0

    def turn(self) -> float:
        """Points a second."""
        requests = [
            self._connection.batch(self.run, losses(batch))
            for batch in range(self._next, self._next + self._batches)
        ]
        self._next += self._batches
        begun = time.perf_counter()
        for request in requests:
            self._connection.send(request)
        return self._batches * BATCH / (time.perf_counter() - begun)


class ColumnsClient:
    """Sends points in columns, in batches that were made before."""

    STEPS = 2000  # of each of the ten metrics in a batch

    def __init__(self, address: tuple[str, int], token: str, batches: int) -> None:
        self._connection = Connection(address, token)
        self._connection.make_run()
        newest = self._connection.call("GET", "/api/v1/runs?limit=1")["runs"][0]
        self._target = f"/api/v1/runs/{newest['id']}/points"
        self._batches = batches
        self._next = 0

    def _request(self, batch: int) -> bytes:
        noise = random.Random(batch)
        steps = range(batch * self.STEPS, (batch + 1) * self.STEPS)
        falling = [4 * math.exp(-step / 5000) + 1 for step in steps]
        columns = {
            "metrics": [f"loss{metric}" for metric in range(10)],
            "steps": list(steps),
            "values": [
                [as_float32(value + noise.gauss(0, 0.05)) for value in falling] for _ in range(10)
            ],
            "times": [1_700_000_000_000_000 + 350_000 * step for step in steps],
            "source": "bench",
            "sequence": batch + 1,
        }
        return self._connection.request("POST", self._target, columns)

    def turn(self) -> float:
        """Points a second."""
        requests = [self._request(batch) for batch in range(self._next, self._next + self._batches)]
        self._next += self._batches
        points = self._batches * 10 * self.STEPS
        begun = time.perf_counter()
        for request in requests:
            answer = json.loads(self._connection.send(request))
            if answer["stored"] != 10 * self.STEPS:
                raise RuntimeError(f"not all points are stored: {answer}")
        return points / (time.perf_counter() - begun)


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_http(daemon: Daemon, packages: Path, rounds: int) -> None:
    """MLflow's log_batch on both servers, and the bytes that both keep of a point."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with mlflow_server(packages, folder) as peer_address:
            ours = RawClient(daemon.address, daemon.token, 50)
            peer = RawClient(peer_address, "", 5)
            peer.turn()  # its first calls make the tables' pages
            empty = stored_bytes(folder)
            mine, other = in_turns(rounds, ours.turn, peer.turn)
            say_rate("log_batch of a raw client", "points/s", mine, other, "mlflow", 40)
            measure_bytes((stored_bytes(folder) - empty) / (5 * BATCH * rounds))


def measure_columns(daemon: Daemon, packages: Path, rounds: int) -> None:
    """Our own batches beside MLflow's log_batch on MLflow's server."""
    with (
        tempfile.TemporaryDirectory() as name,
        mlflow_server(packages, Path(name)) as peer_address,
    ):
        ours = ColumnsClient(daemon.address, daemon.token, 20)
        peer = RawClient(peer_address, "", 5)
        peer.turn()  # its first calls make the tables' pages
        mine, other = in_turns(rounds, ours.turn, peer.turn)
        say_rate("points in columns", "points/s", mine, other, "mlflow log_batch", 100)


def measure_bytes(peer: float) -> None:
    """Sealed chunks, roll-ups and index: `./dev bench series` has them."""
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run(
            [str(BUILD / "bin/bench_series"), folder], check=True, capture_output=True, text=True
        ).stdout.splitlines()
    for line in lines:
        row = json.loads(line)
        if row["unit"] == "bytes/point":
            ratio = peer / row["ours"]
            beside = {"peer": peer, "peer_name": "mlflow", "ratio": ratio, "bar": 40}
            say(row["case"], "bytes/point", ours=row["ours"], **beside)


def measure_client(daemon: Daemon, packages: Path, rounds: int) -> None:
    """The stock client on our server and on one that does nothing: points a second of log_batch."""
    with nothing_server(packages) as nothing:

        def turn(address: tuple[str, int], token: str) -> float:
            variables = environment(packages) | {"MLFLOW_TRACKING_TOKEN": token or "none"}
            variables["MLFLOW_TRACKING_URI"] = f"http://{address[0]}:{address[1]}"
            command = [sys.executable, str(CLIENT)]
            answer = subprocess.run(command, env=variables, check=True, capture_output=True)
            return float(answer.stdout)

        mine, other = in_turns(
            rounds, lambda: turn(daemon.address, daemon.token), lambda: turn(nothing, "")
        )
        say_rate("log_batch of MLflow's client", "points/s", mine, other, "no server's work", 0.9)


def measure_process(daemon: Daemon, packages: Path) -> None:
    """`lockstep.log` in a rank beside TensorBoard's SummaryWriter in the same process, in turns."""
    with tempfile.TemporaryDirectory() as name:
        results = Path(name) / "results"
        daemon.environment |= {"LOCKSTEP_HOME": str(daemon.home)}
        daemon.lockstep(
            *("run", "--devices", "1", "--env", f"PYTHONPATH={BUILD / 'python'}:{packages}"),
            *("--", sys.executable, str(TRAINING), str(results)),
        )
        mine, other, call, call_of_other = json.loads(results.read_text())
        say_rate("scalars in process", "points/s", mine, other, "SummaryWriter", 30)
        beside = {"peer": call_of_other, "peer_name": "SummaryWriter", "bar_us": 2.0}
        say("a call on the training thread", "us", ours=call, **beside)
