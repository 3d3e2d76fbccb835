"""A daemon with 1,000 agents and 10,000 runs that do not change, and calls of others meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _engines.start import show

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "bin" / "bench_cluster"
HOSTS, WAITING = 1000, 9000
CALLS_PER_SECOND, ALLOWED = 200, 50.0  # the 99th percentile in milliseconds
TARGETS = ("/api/v1/runs/bench/1", "/api/v1/runs")
AUTOCANNON = "autocannon@8.0.0"


def autocannon() -> Path:
    """The load generator, installed below build/ once."""
    folder = ROOT / "build" / "npm"
    program = folder / "node_modules" / ".bin" / "autocannon"
    if not program.exists():
        words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), AUTOCANNON]
        subprocess.run(words, check=True, stdout=sys.stderr, timeout=300)
    return program


def call_daemon(program: Path, home: Path, target: str, seconds: int) -> None:
    url = json.loads((home / "daemon.json").read_text())["url"]
    token = (home / "token").read_text().strip()
    words = [str(program), "-R", str(CALLS_PER_SECOND), "-c", "10", "-d", str(seconds), "--json"]
    words += ["-H", f"Authorization: Bearer {token}", url + target]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=seconds + 60)
    result = json.loads(done.stdout)
    if result["non2xx"] or result["errors"] or result["timeouts"]:
        raise SystemExit(f"GET {target}: not every call was answered: {done.stdout}")
    taken = result["latency"]["p99"]
    show(
        f"GET {target}, 99th percentile",
        "ms",
        taken,
        peer=ALLOWED,
        peer_name="allowed",
        ratio=round(ALLOWED / max(taken, 0.001), 3),
        bar=1.0,
        calls_per_second=float(result["requests"]["average"]),
    )


def measure_size(seconds: int) -> None:
    program = autocannon()
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    words = [str(PROGRAM), str(home), str(HOSTS), "1", str(seconds), str(WAITING)]
    daemon = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert daemon.stdin and daemon.stdout
    try:
        for line in daemon.stdout:
            print(json.dumps({**json.loads(line), "bench": "engines"}), flush=True)
            if "longest delay" in line:
                break
        else:
            raise SystemExit("bench_cluster ended before it served")
        for target in TARGETS:
            call_daemon(program, home, target, max(10, seconds // 3))
    finally:
        daemon.stdin.close()
        daemon.wait(60)
        shutil.rmtree(home, ignore_errors=True)
