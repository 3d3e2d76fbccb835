"""The results of scheduling policies on a public job trace, and the time of each replay.

    ./dev bench policies --trace philly_jobs.csv [--hosts 64,80] [--policies fifo,easy]
        [--peer-jobs N]

The trace is Microsoft's Philly trace as Pollux published it (82,247 jobs). A row for each policy
and part of the trace: `ours` is the mean wait. Where an independent simulator's results are known
(REFERENCE), `equal` says whether every job starts and ends at the same second as there. Each half
is also replayed by itself, on an empty cluster: `alone`. A row `step` has the daemon's policy
through its whole step, whose schedule must be that of the pass alone. Then rows of speed: the trace
by fifo, its first jobs by easy, by `lockstep sim` and by the plain simulator in Python
(_sched_peer.py), both from the file to the digest; `alone` is what is left without reading the
trace, a program's start and the digest of one job. Their schedules must be equal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from _sched_peer import read_trace, simulate

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockstep"
DEVICES, POD = 8, 16
ROUNDS = 5
READINGS = (
    "mean_wait_s",
    "debug_median_wait_s",
    "gang_wait_s",
    "idle_waiting",
    "utilization",
    "mean_stay_s",
)
STEP_POLICY = "aged20x72-est"
POLICIES = (
    "fifo",
    "fifo-greedy",
    "easy",
    "easy-est",
    "easy-sjbf",
    "sjf-strict",
    "sjf",
    "aged20-est",
    "aged20x72-est",
    "aged20-est-defrag",
    "aged20x72-est-defrag",
    "ours-est",
    "ours-moves-est",
)

Sums = tuple[int, int, str]  # of first starts, of ends, digest of both

# By an independent simulator, integers only: (hosts, policy).
REFERENCE: dict[tuple[int, str], Sums] = {
    (64, "fifo"): (448047664881, 449128055831, "7afde85be41a"),
    (64, "fifo-greedy"): (384472378941, 385552769891, "b6e3d300bc2a"),
    (64, "easy"): (388932018812, 390012409762, "740582bec6d2"),
    (64, "easy-est"): (386212771365, 387293162315, "3bff7aff7027"),
    (64, "easy-sjbf"): (378516862105, 379597253055, "636c11457337"),
    (64, "sjf-strict"): (377949758085, 379030149035, "e3dd39fe63de"),
    (64, "sjf"): (377368762174, 378449153124, "b9c1ccc4cf63"),
    (64, "aged20-est"): (377145616624, 378226007574, "ec3f809c4117"),
    (64, "aged20x72-est"): (377460662312, 378541053262, "a4abd7d9b877"),
    (64, "aged20x72-est-defrag"): (377451715064, 378536276100, "171056483d87"),
    (64, "aged20-est-defrag"): (377207295475, 378291838676, "2b0b134fb167"),
    (80, "easy"): (377860490359, 378940881309, "23035b598a2f"),
    (80, "sjf"): (376681974077, 377762365027, "d85b7a96c555"),
    (80, "sjf-strict"): (376743710721, 377824101671, "6ae9cd6d6362"),
    (80, "aged20x72-est"): (376684007199, 377764398149, "92cd01dde33e"),
    (80, "aged20-est-defrag"): (376752236909, 377835528239, "bfaff940899f"),
    (80, "aged20x72-est-defrag"): (376790449648, 377873716587, "825ac166662a"),
}

Row = dict[str, Any]


def show(row: Row) -> None:
    print(json.dumps({"bench": "policies"} | row), flush=True)


def replay(options: argparse.Namespace, policy: str, hosts: int, *more: str) -> tuple[Row, float]:
    """The output of `lockstep sim`, and the seconds from its start to its end."""
    begin = time.monotonic()
    words = ["--trace", options.trace, "--policy", policy, "--hosts", f"{hosts}x{DEVICES}"]
    done = subprocess.run(
        [options.program, "sim", "--json", *words, "--pod", str(POD), *more],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=3600,
    )
    return json.loads(done.stdout), time.monotonic() - begin


def sums_of(report: Row) -> Sums:
    return report["sum_of_starts_s"], report["sum_of_ends_s"], report["sha"]


def show_policy(options: argparse.Namespace, policy: str, hosts: int) -> None:
    report, seconds = replay(options, policy, hosts)
    reference = REFERENCE.get((hosts, policy)) if report["jobs"] == 82_247 else None
    for part in report["parts"]:
        row: Row = {"case": "wait", "policy": policy, "hosts": hosts, "part": part["part"]}
        if part["part"] == "whole":
            row |= {"sha": report["sha"]}
            row |= {"equal": sums_of(report) == reference} if reference else {}
        row |= {"unit": "s", "ours": part["mean_wait_s"]}
        for reading in READINGS:
            row[reading] = part[reading]
        if part["part"] == "whole":
            row["replayed_in_s"] = seconds
        show(row)


def show_halves(options: argparse.Namespace, policy: str, hosts: int) -> None:
    for half in ("first", "second"):
        report, seconds = replay(options, policy, hosts, "--half", half)
        whole = report["parts"][0]
        row: Row = {"case": "wait", "policy": policy, "hosts": hosts, "part": half, "alone": True}
        row |= {"unit": "s", "ours": whole["mean_wait_s"]}
        for reading in READINGS:
            row[reading] = whole[reading]
        show(row | {"replayed_in_s": seconds})


def show_step(options: argparse.Namespace, policy: str, hosts: int) -> bool:
    """Replays through the whole step. True if its schedule is that of the pass alone."""
    alone, seconds_alone = replay(options, policy, hosts)
    whole, seconds = replay(options, policy, hosts, "--through", "step")
    equal = sums_of(whole) == sums_of(alone)
    row: Row = {"case": "step", "policy": policy, "hosts": hosts, "equal": equal, "unit": "s"}
    show(row | {"ours": seconds, "pass_alone_s": seconds_alone})
    return equal


def show_speed(options: argparse.Namespace, policy: str, hosts: int, most: int) -> bool:
    """Replays the first `most` jobs. True if both made the same schedule."""
    begin = time.monotonic()
    jobs = read_trace(options.trace)[:most]
    peer_reading = time.monotonic() - begin
    theirs = simulate(jobs, policy, hosts, DEVICES, POD)
    peer = time.monotonic() - begin
    report, _ = replay(options, policy, hosts, "--jobs", str(len(jobs)))
    equal = theirs == sums_of(report)
    ours, reading = (
        median(replay(options, policy, hosts, "--jobs", str(n))[1] for _ in range(ROUNDS))
        for n in (len(jobs), 1)
    )
    show(
        {
            "case": "replay",
            "policy": policy,
            "hosts": hosts,
            "jobs": len(jobs),
            "equal": equal,
            "unit": "s",
            "ours": ours,
            "peer": peer,
            "peer_name": "python",
            "ratio": peer / ours,
            "alone_s": ours - reading,
            "peer_alone_s": peer - peer_reading,
            "ratio_alone": (peer - peer_reading) / (ours - reading),
        }
    )
    return equal


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench policies", description=__doc__)
    parser.add_argument("--trace", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--hosts", default="64,80", help="numbers of hosts of 8 devices, in pods of 16"
    )
    parser.add_argument(
        "--policies", default=",".join(POLICIES), help="as `lockstep sim` names them"
    )
    parser.add_argument(
        "--peer-jobs",
        type=int,
        default=10_000,
        help="by easy in the rows of speed; 0: no such rows",
    )
    parser.add_argument("--program", type=Path, default=PROGRAM, help="the lockstep to measure")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    for hosts in map(int, options.hosts.split(",")):
        for policy in filter(None, options.policies.split(",")):
            show_policy(options, policy, hosts)
            show_halves(options, policy, hosts)
    compared = {"fifo": sys.maxsize, "easy": options.peer_jobs} if options.peer_jobs else {}
    if not show_step(options, STEP_POLICY, 64):
        print("the whole step and the pass alone disagree", file=sys.stderr)
        return 1
    agreed = [show_speed(options, policy, 64, most) for policy, most in compared.items()]
    if not all(agreed):
        print("lockstep sim and the simulator in Python disagree", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
