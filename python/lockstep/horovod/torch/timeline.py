"""The timeline: a file for chrome://tracing or Perfetto, with a row for each name."""

from __future__ import annotations

import json
import threading
import time
from typing import Any


class Timeline:
    """Collects events in memory and writes them when it stops. Any thread may call it."""

    def __init__(self, path: str, mark_cycles: bool = False) -> None:
        self._path = path
        self._mark_cycles = mark_cycles
        self._mutex = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._rows: dict[str, int] = {}
        with open(path, "w"):
            pass  # an error of the path belongs to the call that starts the timeline

    def begin(self, name: str, event: str) -> None:
        self._add(name, {"name": event, "ph": "B"})

    def end(self, name: str) -> None:
        self._add(name, {"ph": "E"})

    def cycle(self) -> None:
        if self._mark_cycles:
            self._add("cycles", {"name": "CYCLE_START", "ph": "i", "s": "g"})

    def stop(self) -> None:
        with self._mutex, open(self._path, "w") as file:
            json.dump(self._events, file)

    def _add(self, name: str, event: dict[str, Any]) -> None:
        microseconds = time.monotonic_ns() // 1000
        with self._mutex:
            row = self._rows.get(name)
            if row is None:
                row = self._rows[name] = len(self._rows)
                named = {"name": "process_name", "ph": "M", "pid": row, "args": {"name": name}}
                self._events.append(named)
            self._events.append({**event, "ts": microseconds, "pid": row, "tid": 0})
