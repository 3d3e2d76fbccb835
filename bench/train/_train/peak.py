"""The peak memory of a process while a block of code runs."""

from __future__ import annotations

import threading
from typing import Self

from _contest.closeable import Closeable

EVERY_SECONDS = 0.02  # a look takes the kernel milliseconds


def held_bytes() -> int:
    """The memory of this process now, with its part of shared pages."""
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


class Peak(Closeable):
    """A thread samples the memory while it is entered."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(EVERY_SECONDS):
            self.bytes = max(self.bytes, held_bytes())
