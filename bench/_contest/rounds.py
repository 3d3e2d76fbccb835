"""Turns in short rounds, and the values that are compared.

The memory bandwidth of a virtual machine flips between modes for seconds at a time, so that two
contestants timed one after the other cannot be compared. They take turns in rounds of some 30 ms,
each time in another order, and of each the median of its better half of rounds counts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .contestant import Work

SLOW = 1.0  # seconds; a side with a slower call is left out, unless a pace allows more
CALLS_MAX = 200_000

Anyone = TypeVar("Anyone")


class Side(Protocol):
    """The interface that a contestant needs in order to take turns."""

    name: str

    def check(self, work: Work) -> None: ...
    def run(self, work: Work, calls: int) -> float: ...


@dataclass(frozen=True)
class Pace:
    rounds: int
    seconds: float  # of a contestant's turn in each round
    slow: float = SLOW
    # A side that is so many times slower than the fastest in the first measurement is left out.
    slow_ratio_max: float = math.inf


@dataclass(frozen=True)
class Calibration:
    """The calibration of a contestant before its turns."""

    calls: int  # that fill a turn
    seconds: float  # of one


def best_half(readings: Sequence[float]) -> float:
    """The median of the better half."""
    return statistics.median(sorted(readings)[: (len(readings) + 1) // 2])


def median_between(readings: Sequence[float], chance: float = 0.95) -> tuple[float, float]:
    """Two of the readings between which the median lies with this chance, or all if they are few.

    It holds for any distribution: each is below the median with a chance of one half (sign test).
    """
    ordered = sorted(readings)
    count, outside, left = len(ordered), 0.0, 0
    while (outside := outside + 2 * math.comb(count, left) / 2**count) <= 1 - chance:
        left += 1
    left = max(left - 1, 0)
    return ordered[left], ordered[-1 - left]


def calibrate(side: Side, work: Work, seconds: float, slow: float = SLOW) -> Calibration | None:
    """The calls that take so long together; None if a single call takes longer than `slow`.

    Approached in small steps, because a single call of ranks that spin for each other's processor
    may be a thousand times as fast as the average one.
    """
    calls = 1
    while (once := side.run(work, calls)) * calls < seconds / 3 and calls < CALLS_MAX:
        calls *= 4
    return None if once > slow else Calibration(max(1, min(CALLS_MAX, round(seconds / once))), once)


def turns(sides: Sequence[Anyone], rounds: int) -> Iterator[Anyone]:
    """Each side once a round; each round begins with another."""
    for turn in range(rounds):
        first = turn % len(sides)
        yield from (*sides[first:], *sides[:first])


def take_turns(
    sides: Sequence[Side], work: Work, pace: Pace, say: Callable[[str], None]
) -> dict[str, float]:
    """Seconds of a call of each, by name, after one result of each has been verified."""
    looks: dict[str, Calibration] = {}
    for side in sides:
        side.check(work)
        look = calibrate(side, work, pace.seconds, pace.slow)
        if look is None:
            say(f"{side.name} is left out of {work}: one call takes more than {pace.slow:.0f} s")
        else:
            looks[side.name] = look
    most = pace.slow_ratio_max * min((look.seconds for look in looks.values()), default=0)
    runners = [side for side in sides if side.name in looks and looks[side.name].seconds <= most]
    readings: dict[str, list[float]] = {side.name: [] for side in runners}
    for side in turns(runners, pace.rounds):
        readings[side.name].append(side.run(work, looks[side.name].calls))
    seen = {name: look.seconds for name, look in looks.items()}
    return seen | {name: best_half(times) for name, times in readings.items()}
