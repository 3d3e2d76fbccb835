"""Rows of results, and peers that take turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any


def say(case: str, unit: str, **fields: Any) -> None:
    print(json.dumps({"bench": "insight", "case": case, "unit": unit, **fields}), flush=True)


def say_rate(case: str, unit: str, ours: float, peer: float, peer_name: str, bar: float) -> None:
    """A row of which more is better."""
    say(case, unit, ours=ours, peer=peer, peer_name=peer_name, ratio=ours / peer, bar=bar)


def say_time(
    case: str, ours: float, limit: float, peer: float | None = None, peer_name: str = ""
) -> None:
    """A row in ms. The bar is an absolute time: `ratio` is its share, 1 and more meets it."""
    beside: dict[str, Any] = {}
    if peer is not None:
        beside = {"peer": peer, "peer_name": peer_name}
    say(case, "ms", ours=ours, **beside, bar_ms=float(limit), ratio=limit / ours, bar=1)


def in_turns(rounds: int, *contestants: Callable[[], float]) -> list[float]:
    """The median reading of each, where another one begins each round."""
    readings: list[list[float]] = [[] for _ in contestants]
    for turn in range(rounds):
        for place in range(len(contestants)):
            which = (turn + place) % len(contestants)
            readings[which].append(contestants[which]())
    return [statistics.median(each) for each in readings]
