"""Engines: the start of a gang against sbatch on the same Slurm, and a daemon with 10,000 runs."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.slurm.testbed import Slurm, make_folder  # noqa: E402

PROGRAMS = ROOT / "build" / "bin"
NODES, RANKS = 4, 2
ROUNDS = 7
# Slurm schedules at most every 2 s, and the end of a job counts: each turn begins after that.
REST = 3.0
START_ALLOWED = 0.5  # seconds more than sbatch
HOSTS, WAITING = 1000, 9000
CALLS_PER_SECOND, CALL_ALLOWED = 200, 50.0  # the 99th percentile in milliseconds
AUTOCANNON = "autocannon@8.0.0"

# A rank says when it runs; it ends at once.
RANK = 'date +%s.%N > "$STAMPS/${RANK:-$SLURM_PROCID}.part"; cd "$STAMPS"; '
RANK += 'mv "${RANK:-$SLURM_PROCID}.part" "${RANK:-$SLURM_PROCID}.time"'


def show(case: str, unit: str, ours: float, **more: Any) -> None:
    row = {"bench": "engines", "case": case, "unit": unit, "ours": round(ours, 3), **more}
    print(json.dumps(row), flush=True)


def wait_for(condition: Callable[[], Any], what: str, limit: float = 120) -> Any:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise SystemExit(f"after {limit:.0f} s still not: {what}")


class Gang:
    """Starts the same ranks in turns by sbatch and by Lockstep, on one Slurm."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self.folder = folder
        self.slurm = slurm
        self.turn = 0
        shared = folder / "shared"
        shared.mkdir()
        self.environment = {**slurm.environment, "LOCKSTEP_HOME": str(folder / "home")}
        self.lockstep("serve", "--engine", "slurm", "--shared", str(shared), "--detach")

    def command(self, *words: str) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def lockstep(self, *words: str) -> str:
        return self.command(str(PROGRAMS / "lockstep"), *words)

    def start_by_lockstep(self, stamps: Path) -> Callable[[], bool]:
        ranks = ["-n", str(NODES), "-g", str(RANKS), "--env", f"STAMPS={stamps}"]
        name = self.lockstep("run", "--detach", *ranks, "--", "sh", "-c", RANK)
        return lambda: bool(json.loads(self.lockstep("show", name, "--json"))["ended"])

    def start_by_sbatch(self, stamps: Path) -> Callable[[], bool]:
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/sh\nsrun sh -c '{RANK}'\n")
        size = [f"--nodes={NODES}", f"--ntasks-per-node={RANKS}"]
        exports = f"--export=ALL,STAMPS={stamps}"
        job = self.command("sbatch", "--parsable", *size, exports, str(script))
        state = ["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]
        return lambda: self.command(*state) in ("COMPLETED", "FAILED")

    def seconds(self, start: Callable[[Path], Callable[[], bool]]) -> float:
        """From the submission until the last rank runs."""
        self.turn += 1
        stamps = self.folder / f"stamps-{self.turn}"
        stamps.mkdir()
        time.sleep(REST)
        begun = time.time()
        has_ended = start(stamps)
        files = wait_for(
            lambda: len(found := list(stamps.glob("*.time"))) == NODES * RANKS and found,
            "all ranks run",
        )
        taken = max(float(file.read_text()) for file in files) - begun
        wait_for(has_ended, "the job has ended")
        self.wait_until_idle()
        return taken

    def wait_until_idle(self) -> None:
        free = ["sinfo", "-h", "-N", "-p", "all", "-o", "%t"]
        wait_for(lambda: set(self.command(*free).split()) == {"idle"}, "all hosts are idle")

    def close(self) -> None:
        self.lockstep("serve", "--stop")


def compare_with_sbatch(rounds: int) -> None:
    folder = make_folder()
    slurm = Slurm(folder)
    try:
        slurm.start()
        gang = Gang(folder, slurm)
        ours, peer = [], []
        try:
            for _ in range(rounds + 1):  # the first round is not counted
                peer.append(gang.seconds(gang.start_by_sbatch))
                ours.append(gang.seconds(gang.start_by_lockstep))
        finally:
            gang.close()
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)
    show_start("slurm", "sbatch + srun", ours[1:], peer[1:])


def show_start(engine: str, peer_name: str, ours: list[float], peer: list[float]) -> None:
    mine, theirs = statistics.median(ours), statistics.median(peer)
    more = {"nodes": NODES, "ranks": NODES * RANKS, "slowest": max(ours)}
    show(
        f"{engine}: from the submission until all ranks run",
        "s",
        mine,
        peer=round(theirs, 3),
        peer_name=peer_name,
        ratio=round(theirs / mine, 3),
        **more,
    )
    show(
        f"{engine}: more than {peer_name}",
        "s",
        max(mine - theirs, 0.001),
        peer=START_ALLOWED,
        peer_name="allowed",
        ratio=round(START_ALLOWED / max(mine - theirs, 0.001), 3),
        bar=1.0,
    )


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
        peer=CALL_ALLOWED,
        peer_name="allowed",
        ratio=round(CALL_ALLOWED / max(taken, 0.001), 3),
        bar=1.0,
        calls_per_second=float(result["requests"]["average"]),
    )


def measure_size(seconds: int) -> None:
    """1,000 agents and 10,000 runs that do not change, then calls of others."""
    program = autocannon()
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    words = [str(PROGRAMS / "bench_cluster"), str(home), str(HOSTS), "1", str(seconds)]
    daemon = subprocess.Popen(
        [*words, str(WAITING)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdin and daemon.stdout
    try:
        for line in daemon.stdout:
            print(json.dumps({**json.loads(line), "bench": "engines"}), flush=True)
            if "longest delay" in line:
                break
        else:
            raise SystemExit("bench_cluster ended before it served")
        for target in ("/api/v1/runs/bench/1", "/api/v1/runs"):
            call_daemon(program, home, target, max(10, seconds // 3))
    finally:
        daemon.stdin.close()
        daemon.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench engines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter times")
    parser.add_argument("--only", choices=("slurm", "size"), help="one part of it")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("LOCKSTEP_URL", None)
    if options.only != "size":
        compare_with_sbatch(2 if options.quick else ROUNDS)
    if options.only != "slurm":
        measure_size(10 if options.quick else 60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
