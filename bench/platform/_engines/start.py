"""The start of a gang, in turns: ours and that of the system on which it runs."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NODES, RANKS = 4, 2
ALLOWED = 0.5  # seconds more than the peer

# A rank says when it runs, and ends. $1: its number.
RANK = """stamp() { date +%s.%N > "$STAMPS/$1.part"; mv "$STAMPS/$1.part" "$STAMPS/$1.time"; }; """

# Starts the ranks, and returns a function that says whether all has ended.
Start = Callable[[Path], Callable[[], bool]]


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


def seconds_to_start(start: Start, stamps: Path, rest: float) -> float:
    """From the submission until the last rank runs. Begins after a rest, ends with the gang."""
    stamps.mkdir()
    time.sleep(rest)
    begun = time.time()
    has_ended = start(stamps)
    files = wait_for(
        lambda: len(found := list(stamps.glob("*.time"))) == NODES * RANKS and found,
        "all ranks run",
    )
    taken = max(float(file.read_text()) for file in files) - begun
    wait_for(has_ended, "the gang has ended")
    return taken


def compare(
    engine: str, peer_name: str, ours: Start, peer: Start, folder: Path, rounds: int, rest: float
) -> None:
    """Medians of so many rounds; one before them is not counted."""
    taken: dict[Start, list[float]] = {peer: [], ours: []}
    for turn in range(rounds + 1):
        for number, start in enumerate(taken):
            stamps = folder / f"stamps-{turn}-{number}"
            taken[start].append(seconds_to_start(start, stamps, rest))
    mine, theirs = (statistics.median(taken[start][1:]) for start in (ours, peer))
    show(
        f"{engine}: from the submission until all ranks run",
        "s",
        mine,
        peer=round(theirs, 3),
        peer_name=peer_name,
        ratio=round(theirs / mine, 3),
        nodes=NODES,
        ranks=NODES * RANKS,
        slowest=max(taken[ours][1:]),
    )
    more = max(mine - theirs, 0.001)
    show(
        f"{engine}: more than {peer_name}",
        "s",
        more,
        peer=ALLOWED,
        peer_name="allowed",
        ratio=round(ALLOWED / more, 3),
        bar=1.0,
    )
