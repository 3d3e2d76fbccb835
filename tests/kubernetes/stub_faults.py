"""Faults that the stub API server injects into the requests that match."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    method: str  # a regular expression, as `path`
    path: str
    times: int = 1
    status: int = 0  # answers with it and does nothing; 0: does what was asked
    retry_after: int = 0  # seconds, in the answer's header
    delay: float = 0  # seconds, before the answer
    loses_answer: bool = False  # does what was asked, and closes the connection
    repeats: bool = False  # does what was asked twice, as if the request had come twice
    cuts_after: int = 0  # of a watch: closes the connection without an end after these events
    hits: int = field(default=0, init=False)

    def matches(self, method: str, path: str) -> bool:
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


class Faults:
    """The faults that are left. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        with self.lock:
            self.left.append(fault)
        return fault

    def next_for(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.left:
                if fault.hits < fault.times and fault.matches(method, path):
                    fault.hits += 1
                    return fault
        return None
