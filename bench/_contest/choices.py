"""How plans are compared: in the same processes, in the same memory, in turns.

The same plan started twice can take 15 us or 30 where ranks outnumber cores, depending on which
ranks share a core. So all plans are ways of the same ranks, each with a group of its own; ranks are
started several times, plans are compared within a start only, and of these ratios the medians
count. One plan is measured twice in each start, by two groups: how far these two are apart is how
far two plans must be apart to be told apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .contestant import Contestant, Work

# Suffix of a plan's name: another group with the same plan.
AGAIN = "#again"


class AlgorithmSide:
    """A contestant's ranks with one algorithm: a side of its own."""

    def __init__(self, ranks: Contestant, name: str) -> None:
        self.name = name
        self._ranks = ranks

    def check(self, work: Work) -> None:
        self._ranks.take(self.name)
        self._ranks.check(work)

    def run(self, work: Work, calls: int) -> float:
        self._ranks.take(self.name)
        return self._ranks.run(work, calls)


@dataclass(frozen=True)
class Comparison:
    seconds: dict[str, float]  # by plan; of an ordinary start
    best: str
    ratio: float  # the best's time by the chosen one's
    same: float  # ratio of two groups with the same plan: the noise
    spread: float  # of the chosen plan's time from start to start: the longest by the shortest


def compare_plans(chosen: str, twice: str, starts: Sequence[dict[str, float]]) -> Comparison:
    """By way, the seconds of a call in each start; one way (twice) was measured twice.

    A way that was left out of a start is left out of the result.
    """
    whole = [way for way in starts[0] if all(way in start for start in starts)]
    ways = [way for way in whole if way != twice + AGAIN]
    relative = {
        way: statistics.median(start[way] / start[chosen] for start in starts) for way in ways
    }
    ours = [start[chosen] for start in starts]
    best = min(ways, key=relative.__getitem__)
    both = [(start[twice], start[twice + AGAIN]) for start in starts]
    return Comparison(
        seconds={way: relative[way] * statistics.median(ours) for way in ways},
        best=best,
        ratio=relative[best],
        same=statistics.median(min(two) / max(two) for two in both),
        spread=max(ours) / min(ours),
    )
