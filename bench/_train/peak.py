"""How much memory a process has at its most while something runs."""

from __future__ import annotations

import threading
from typing import Self

from _contest.closing import Closing

EVERY_SECONDS = 0.02  # a look takes the kernel milliseconds


def held_bytes() -> int:
    """What this process has now; of what several share, its part."""
    with open("/proc/self/smaps_rollup") as told:
        return next(int(line.split()[1]) << 10 for line in told if line.startswith("Pss:"))


class Peak(Closing):
    """While it is entered, a thread looks."""

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
