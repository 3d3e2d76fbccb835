"""What Lockstep chooses between hosts, beside every other way to carry the same call out.

On shaped wires, as in wire.py. Of each shape of a group `lockstep probe` measures first what
messages cost; our ranks choose by that, while others are forced to one plan each, and all take
turns. A row's ratio is the time of the best plan by that of the chosen one.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from _contest.arguments import Grid, grid_in, layouts, parser_of
from _contest.contest import BUILD, look_around, say
from _contest.contestant import Contestant, Entry, Failed, Work
from _contest.costs import Costs, Predicted, predicted, probe
from _contest.network import Unavailable
from _contest.rounds import Pace, take_turns
from _contest.rows import KIB, MIB, PATHS
from _contest.wired import SLOW, Layout, ours

# Ten minutes in all: long calls of plans that are far from the best are timed once.
SIZES = [8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
FULL = Grid([2, 4], [1, 2], ["1gbit", "10gbit"], SIZES, Pace(5, 0.05, SLOW, hopeless=2.5))
QUICK = Grid([2], [1], ["1gbit"], [8, 64 * KIB], Pace(2, 0.01, SLOW))

# The choice is within a tenth of the best.
BAR = 1 / 1.1
CHOOSES = "chooses"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and contestants go then too
    parser = parser_of(__doc__)
    grid = grid_in(parser, parser.parse_args(), FULL, QUICK)
    try:
        look_around()
        for layout in layouts(grid):
            with tempfile.TemporaryDirectory(prefix="lockstep-choice-") as folder:
                hold(layout, grid, Path(folder))
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


def hold(layout: Layout, grid: Grid, folder: Path) -> None:
    costs = probe(layout, BUILD, folder)
    say(f"{layout.hosts} hosts x {layout.ranks_a_host}, {layout.rate}: {costs.words}")
    sizes = list(grid.sizes)
    choices = predicted(layout, costs, sizes, BUILD)
    plans = {plan for choice in choices for plan in choice.seconds}
    with contextlib.ExitStack() as started:
        sides = {
            each.name: started.enter_context(Contestant(each, layout.ranks, folder))
            for each in (chooser(layout, costs), *(forced(layout, plan) for plan in sorted(plans)))
        }
        for size, choice in zip(sizes, choices, strict=True):
            work = Work("all_reduce", size)
            others = [sides[plan] for plan in choice.seconds if plan != choice.chosen]
            times = take_turns([sides[CHOOSES], *others], work, grid.pace, say)
            if CHOOSES in times:
                print(json.dumps(row(layout, work, choice, times)), flush=True)


def chooser(layout: Layout, costs: Costs) -> Entry:
    return ours(CHOOSES, layout, BUILD, PATHS[0], LOCKSTEP_COSTS=costs.words)


def forced(layout: Layout, plan: str) -> Entry:
    return ours(plan, layout, BUILD, PATHS[0], LOCKSTEP_ALGORITHM=plan)


def row(layout: Layout, work: Work, choice: Predicted, times: dict[str, float]) -> dict[str, Any]:
    """times are seconds of a call, by plan but for who chooses."""
    by_plan = {choice.chosen if name == CHOOSES else name: us for name, us in times.items()}
    best = min(by_plan, key=by_plan.__getitem__)
    made: dict[str, Any] = {"bench": "choice", "case": work.collective, "ranks": layout.ranks}
    made |= {"hosts": layout.hosts, "rate": layout.rate, "bytes": work.bytes}
    made |= {"chosen": choice.chosen, "unit": "us", "ours": by_plan[choice.chosen] * 1e6}
    made |= {"peer": by_plan[best] * 1e6, "peer_name": best}
    made |= {"ratio": by_plan[best] / by_plan[choice.chosen], "bar": BAR}
    made |= {"predicted": choice.seconds[choice.chosen] * 1e6}
    made |= {"predicted_best": choice.seconds[best] * 1e6}
    return made | {plan: seconds * 1e6 for plan, seconds in by_plan.items()}


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
