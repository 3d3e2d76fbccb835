"""The daemon's load: 1,000 agents of one gang, of 1,000 runs, and 64 real agents that start."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "bin"
AGENTS = 1000
REAL_AGENTS = 64
START_BAR = 3.0  # seconds from the submission until all ranks run


def play(runs: int, nodes: int, seconds: int) -> None:
    """Simulated agents report for so long; the program prints the rows."""
    folder = tempfile.mkdtemp(prefix="lockstep-bench-")
    try:
        words = [str(PROGRAMS / "bench_cluster"), folder, str(runs), str(nodes), str(seconds)]
        subprocess.run(words, check=True, timeout=seconds + 300)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_real_agents() -> None:
    """Times the start of one run with a `sleep` on each of many hosts of this machine."""
    home = tempfile.mkdtemp(prefix="lockstep-bench-")
    environment = os.environ | {"LOCKSTEP_HOME": home}

    def lockstep(*words: str) -> str:
        command = [str(PROGRAMS / "lockstep"), *words]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        lockstep("serve", "--hosts", f"{REAL_AGENTS}x1", "--detach")
        begun = time.monotonic()
        words = ["-n", str(REAL_AGENTS), "-g", "1", "--", "sleep", "1000"]
        name = lockstep("run", "--detach", *words)
        while json.loads(lockstep("show", name, "--json"))["state"] != "running":
            time.sleep(0.05)
        show_start(time.monotonic() - begun)
        lockstep("stop", name)
        while json.loads(lockstep("show", name, "--json"))["ended"] is None:
            time.sleep(0.2)
    finally:
        lockstep("serve", "--stop")
        shutil.rmtree(home, ignore_errors=True)


def show_start(taken: float) -> None:
    row = {
        "bench": "cluster",
        "case": "real agents, all ranks run after",
        "runs": 1,
        "nodes": REAL_AGENTS,
        "unit": "s",
        "ours": round(taken, 3),
        "peer": START_BAR,
        "peer_name": "allowed",
        "ratio": round(START_BAR / taken, 3),
        "bar": 1.0,
    }
    print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench cluster", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="10 s of reports instead of 10 minutes"
    )
    seconds = 10 if parser.parse_args().quick else 600
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start_real_agents()
    play(1, AGENTS, seconds)
    play(AGENTS, 1, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
