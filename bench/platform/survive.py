"""The daemon, agents and ranks are killed: no run is lost, and nothing is counted twice."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time

from _survive.local_cluster import Violation
from _survive.plan import plan
from _survive.round import Result, play

ANSWER_BAR = 2.0  # seconds from the daemon's restart to its first answer
STATE_BAR = 1.0  # seconds from a rank's death to its state in `lockstep show`


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def play_round(seed: int, index: int) -> Result | None:
    chosen = plan(seed, index)
    try:
        result = play(chosen)
    except Violation as violation:
        say(f"VIOLATED: {violation}")
        return None
    killed = len(result.evidence.done_kills)
    say(f"round {index}: ok in {result.seconds:.1f} s, killed {killed}: {chosen}")
    return result


def row(case: str, seconds: list[float], bar: float) -> dict[str, object]:
    """The row of the slowest one."""
    slowest = max(seconds)
    return {
        "bench": "survive",
        "case": case,
        "times": len(seconds),
        "median": round(statistics.median(seconds), 3),
        "unit": "s",
        "ours": round(slowest, 3),
        "peer": bar,
        "peer_name": "allowed",
        "ratio": round(bar / slowest, 3),
        "bar": 1.0,
    }


def show(results: list[Result | None], seconds: float) -> None:
    good = [result for result in results if result]
    answers = [each for result in good for each in result.seconds_to_answer]
    states = [each for result in good for each in result.seconds_to_state]
    rounds = {
        "bench": "survive",
        "case": "rounds without a violation",
        "rounds": len(results),
        "killed": sum(len(result.evidence.done_kills) for result in good),
        "seconds": round(seconds),
        "unit": "rounds",
        "ours": len(good),
    }
    print(json.dumps(rounds), flush=True)
    if answers:
        print(json.dumps(row("daemon's restart to its answer", answers, ANSWER_BAR)), flush=True)
    if states:
        print(json.dumps(row("rank's death to `lockstep show`", states, STATE_BAR)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench survive", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="ROUND", help="this round of the seed alone")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    indices = range(arguments.rounds) if arguments.only is None else [arguments.only]
    began = time.monotonic()
    results = [play_round(arguments.seed, index) for index in indices]
    show(results, time.monotonic() - began)
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
