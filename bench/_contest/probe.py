"""The memory bandwidth of one process, and of all ranks together: is the machine quiet enough?

A virtual machine may get twice the bandwidth of one process for two, or no more than for one, and
flip between that for seconds or minutes. Ratios survive it, since contestants take turns; times and
shares of the limit do not, so that a change is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .contestant import Contestant, Work

BYTES = 64 << 20  # more than a cache holds
CALLS = 2
CHANGED = 1.4


@dataclass(frozen=True)
class Memory:
    one: float  # GB/s of one process
    all: float  # of all together

    @property
    def gain(self) -> float:
        return self.all / self.one


class Probe:
    """Runs the contestant `memory`, alone and with as many ranks as the others have."""

    def __init__(self, alone: Contestant, together: Contestant, ranks: int) -> None:
        self._alone, self._together, self._ranks = alone, together, ranks
        self._last: Memory | None = None

    def look(self, when: str, say: Callable[[str], None]) -> None:
        """Reports the bandwidth, if it is the first measurement or if it has changed."""
        work = Work("all_reduce", BYTES)
        now = Memory(
            2 * BYTES / self._alone.run(work, CALLS) / 1e9,
            2 * BYTES * self._ranks / self._together.run(work, CALLS) / 1e9,
        )
        if self._last is None or not 1 / CHANGED < now.gain / self._last.gain < CHANGED:
            was = f", it was {self._last.gain:.1f}x" if self._last else ""
            say(
                f"memory {when}: one process {now.one:.1f} GB/s, {self._ranks} together "
                f"{now.all:.1f} GB/s ({now.gain:.1f}x{was})"
            )
        self._last = now
