"""The plan that Lockstep chooses between hosts, against every other plan for the same call.

On shaped wires, as in wire.py. For each shape of a group `lockstep probe` first measures the costs
of messages, and `lockstep tune` finds the fastest plan; both choices are compared with all plans,
which take turns in the same processes (_contest/choices.py).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from _contest.arguments import Grid, grid_in, layouts, parser_of
from _contest.between_hosts import SLOW, Layout, ours
from _contest.choices import AGAIN, AlgorithmSide, compare_plans
from _contest.contest import BUILD, say, warn_if_loaded
from _contest.contestant import Contestant, Failed, Work
from _contest.costs import Prediction, predicted, probe, tune
from _contest.network import Unavailable
from _contest.rounds import Pace, take_turns
from _contest.rows import KIB, MIB, PATHS

# Half an hour in all: long calls of plans that are far from the best are timed once.
SIZES = [8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
FULL = Grid([2, 4], [1, 2], ["1gbit", "10gbit"], SIZES, Pace(3, 0.05, SLOW, slow_ratio_max=2.5))
QUICK = Grid([2], [1], ["1gbit"], [8, 64 * KIB], Pace(2, 0.01, SLOW))
# Where ranks share cores, how they take turns on them stays for a while: small calls, of which a
# turn holds many, take so many times as many turns.
SMALL, MORE_TURNS = 64 * KIB, 3
# The number of starts of the ranks: which ranks share a core changes with each start.
STARTS, STARTS_QUICK = 3, 1

# The choice is within a tenth of the best.
BAR = 1 / 1.1


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and contestants go then too
    given, grid = read_arguments()
    try:
        warn_if_loaded()
        for layout in layouts(grid):
            with tempfile.TemporaryDirectory(prefix="lockstep-choice-") as folder:
                for row in hold(layout, grid, given.starts, Path(folder)):
                    print(json.dumps(row), flush=True)
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


def read_arguments() -> tuple[argparse.Namespace, Grid]:
    parser = parser_of(__doc__)
    parser.add_argument("--starts", type=int, help="how often the ranks are started")
    given = parser.parse_args()
    if given.starts is not None and given.starts < 1:
        parser.error("--starts: 1 at least")
    given.starts = given.starts or (STARTS_QUICK if given.quick else STARTS)
    return given, grid_in(parser, given, FULL, QUICK)


def hold(layout: Layout, grid: Grid, starts: int, folder: Path) -> Iterator[dict[str, Any]]:
    sizes = list(grid.sizes)
    costs = probe(layout, BUILD, folder)
    say(f"{layout.hosts} hosts x {layout.ranks_a_host}, {layout.rate}: {costs.text()}")
    tuned = tune(layout, costs, sizes, BUILD, folder)
    by_model = predicted(layout, costs, sizes, BUILD)
    by_tuning = predicted(layout, tuned, sizes, BUILD)
    times: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    entry = ours("lockstep", layout, BUILD, PATHS[0], LOCKSTEP_COSTS=costs.words)
    for _ in range(starts):
        with (
            tempfile.TemporaryDirectory(dir=folder) as place,
            Contestant(entry, layout.ranks, Path(place)) as ranks,
        ):
            for size, choice in zip(sizes, by_model, strict=True):
                ways = [*choice.seconds, choice.chosen + AGAIN]
                sides = [AlgorithmSide(ranks, way) for way in ways]
                rounds = grid.pace.rounds * (MORE_TURNS if size <= SMALL else 1)
                pace = replace(grid.pace, rounds=rounds)
                times[size].append(take_turns(sides, Work("all_reduce", size), pace, say))
    for size, choice, measured in zip(sizes, by_model, by_tuning, strict=True):
        yield row(layout, size, "all_reduce", choice, choice.chosen, times[size])
        yield row(layout, size, "all_reduce, tuned", choice, measured.chosen, times[size])


def row(
    layout: Layout,
    size: int,
    case: str,
    choice: Prediction,
    chosen: str,
    starts: list[dict[str, float]],
) -> dict[str, Any]:
    """starts: of each the seconds of a call, by way."""
    found = compare_plans(chosen, choice.chosen, starts)
    made: dict[str, Any] = {"bench": "choice", "case": case, "ranks": layout.ranks}
    made |= {"hosts": layout.hosts, "rate": layout.rate, "bytes": size}
    made |= {"chosen": chosen, "unit": "us", "ours": found.seconds[chosen] * 1e6}
    made |= {"peer": found.seconds[found.best] * 1e6, "peer_name": found.best}
    made |= {"ratio": found.ratio, "bar": BAR, "same": found.same, "starts": found.spread}
    made |= {"predicted": choice.seconds[chosen] * 1e6}
    made |= {"predicted_best": choice.seconds[found.best] * 1e6}
    return made | {plan: seconds * 1e6 for plan, seconds in found.seconds.items()}


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
