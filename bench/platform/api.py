"""Calls of the daemon on one connection, alone and while 200 agents report."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockstep"
SECONDS = 10
AGENTS = 200


class Daemon:
    """A daemon with its own home, which presents this machine as many hosts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = os.environ | {"LOCKSTEP_HOME": str(home)}
        self.lockstep("serve", "--hosts", f"{AGENTS}x1", "--detach")

    def lockstep(self, *words: str) -> str:
        return subprocess.run(
            [str(PROGRAM), *words], env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def run(self, nodes: int) -> str:
        """Starts a run of so many nodes that only wait, and returns when they run."""
        words = ["--project", "demo", "-n", str(nodes), "-g", "1", "--", "sleep", "1000"]
        name = self.lockstep("run", "--detach", *words)
        while json.loads(self.lockstep("show", name, "--json"))["state"] != "running":
            time.sleep(0.2)
        return name

    def stop(self, name: str) -> None:
        self.lockstep("stop", name)
        while json.loads(self.lockstep("show", name, "--json"))["ended"] is None:
            time.sleep(0.2)

    def times(self, target: str) -> list[float]:
        """The seconds of each of the calls, made one after another."""
        url = urlsplit(json.loads((self.home / "daemon.json").read_text())["url"])
        token = (self.home / "token").read_text().strip()
        connection = http.client.HTTPConnection(f"{url.hostname}:{url.port}", timeout=30)
        taken = []
        end = time.monotonic() + SECONDS
        while (begun := time.monotonic()) < end:
            connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            taken.append(time.monotonic() - begun)
        return sorted(taken)


def say(case: str, unit: str, ours: float, **parameters: int) -> None:
    print(json.dumps({"bench": "api", "case": case, "unit": unit, "ours": ours, **parameters}))


def measure(daemon: Daemon, agents: int) -> None:
    name = daemon.run(agents)
    try:
        taken = daemon.times("/api/v1/runs/demo/1")
    finally:
        daemon.stop(name)  # agents outlive their daemon
    say("GET one run, kept connection", "requests/s", len(taken) / SECONDS, agents=agents)
    say("GET one run, 99th percentile", "ms", 1e3 * taken[len(taken) * 99 // 100], agents=agents)


def main() -> int:
    argparse.ArgumentParser(prog="./dev bench api", description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    daemon = Daemon(home)
    try:
        measure(daemon, 1)
        measure(daemon, AGENTS)
    finally:
        daemon.lockstep("serve", "--stop")
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
