"""The trace of a rank as a part of one of several ranks.

Both have Chrome's format, as torch.profiler writes it. An event has a process, a thread, a time and
a duration in microseconds. In the result a rank is a process, and all ranks use the wall clock. The
calls of Lockstep get rows of their own: they overlap with the work of their thread, and a viewer
cannot show such events in one row.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from typing import Any

Event = dict[str, Any]

_CALL = "lockstep:"
_FLOWS = ("s", "t", "f")  # arrows between events of one id
_RANKS_MAX = 1 << 20


def rank_events(trace: Event, pid: int, rank: int, name: str, base_us: int) -> list[Event]:
    """The events of a rank, on the clock that begins at `base_us` since 1970.

    Args:
        trace: that torch.profiler has exported.
        pid: of the process that did.
        name: of the rank's row, such as "rank 3 (node 0, device 1)".
    """
    shift_us = trace["baseTimeNanoseconds"] // 1000 - base_us
    # The profiler's own marks have names in place of numbers.
    given = [event for event in trace["traceEvents"] if isinstance(event.get("pid"), int)]
    threads = _Threads(given, pid)
    events = [_moved(event, threads, rank, shift_us) for event in given if event["ph"] != "M"]
    calls = [event for event in events if event["ph"] == "X" and event["name"].startswith(_CALL)]
    for row, event in _in_rows(calls):
        event["tid"] = threads.number_of_row(row)
    return [*_names(threads, rank, name), *events]


def packed(events: Iterable[Event]) -> bytes:
    """As `lockstep profile` puts them together: gzip, with commas between them."""
    text = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return gzip.compress(text.encode(), compresslevel=5)


class _Threads:
    """The rows of a rank: the threads of its process, then the streams of its GPUs, then calls."""

    def __init__(self, events: list[Event], pid: int) -> None:
        keys = {(event["pid"], event["tid"]): None for event in events if "tid" in event}
        own = [key for key in keys if key[0] == pid]
        self._next = max((tid for _, tid in own if isinstance(tid, int)), default=0) + 1
        self._numbers: dict[tuple[Any, Any], int] = {key: key[1] for key in own}
        self._rows: list[int] = []
        self.names: dict[int, str] = {}
        for key in keys:
            if key[0] != pid:
                self._numbers[key] = self._take()
        for event in events:
            if event["ph"] == "M" and event["name"] == "thread_name":
                self.names[self.number(event)] = event["args"]["name"]

    def number(self, event: Event) -> int:
        return self._numbers[event["pid"], event["tid"]]

    def number_of_row(self, row: int) -> int:
        """The number of a row of calls, which count from 0."""
        while len(self._rows) <= row:
            self._rows.append(self._take())
            self.names[self._rows[-1]] = f"lockstep calls {len(self._rows)}"
        return self._rows[row]

    def is_calls(self, number: int) -> bool:
        return number in self._rows

    def _take(self) -> int:
        self._next += 1
        return self._next - 1


def _moved(event: Event, threads: _Threads, rank: int, shift_us: int) -> Event:
    moved = {**event, "pid": rank, "tid": threads.number(event), "ts": event["ts"] + shift_us}
    if event["ph"] in _FLOWS:  # ids of several ranks must differ
        moved["id"] = event["id"] * _RANKS_MAX + rank
    return moved


def _in_rows(calls: list[Event]) -> Iterator[tuple[int, Event]]:
    """Each with the first row in which no earlier one overlaps with it."""
    ends: list[float] = []
    for event in sorted(calls, key=lambda event: float(event["ts"])):
        free = (row for row, end in enumerate(ends) if end <= event["ts"])
        row = next(free, len(ends))
        ends[row : row + 1] = [event["ts"] + event["dur"]]
        yield row, event


def _names(threads: _Threads, rank: int, name: str) -> Iterator[Event]:
    def metadata(what: str, tid: int, **args: object) -> Event:
        return {"ph": "M", "name": what, "pid": rank, "tid": tid, "args": args}

    yield metadata("process_name", 0, name=name)
    yield metadata("process_sort_index", 0, sort_index=rank)
    for number, shown in threads.names.items():
        yield metadata("thread_name", number, name=shown)
        if threads.is_calls(number):
            yield metadata("thread_sort_index", number, sort_index=-1)  # above the threads
