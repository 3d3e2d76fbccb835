"""Rows of results, each beside its bar or a peer."""

from __future__ import annotations

import json


def say(case: str, unit: str, ours: float, limit: float, **fields: object) -> None:
    """`ratio` is the share of the bar: 1 and more meets it."""
    row = {"bench": "page", "case": case, "unit": unit, "ours": ours}
    ratio = limit / ours if ours > 0 else 0.0
    print(json.dumps({**row, f"bar_{unit}": limit, "ratio": ratio, "bar": 1, **fields}), flush=True)


def say_rate(case: str, unit: str, ours: float, least: float) -> None:
    """The same, where more is better."""
    row = {"bench": "page", "case": case, "unit": unit, "ours": ours}
    print(json.dumps({**row, f"bar_{unit}": least, "ratio": ours / least, "bar": 1}), flush=True)


def say_beside(
    case: str, unit: str, ours: float, peer: float, peer_name: str, **fields: object
) -> None:
    """Less is better, and our page should take no more than the peer's."""
    row = {"bench": "page", "case": case, "unit": unit, "ours": ours}
    beside = {"peer": peer, "peer_name": peer_name, "ratio": peer / ours, "bar": 1}
    print(json.dumps({**row, **beside, **fields}), flush=True)
