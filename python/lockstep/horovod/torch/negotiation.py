"""Which collectives all ranks are ready for.

Ranks request named collectives in any order, and all ranks must execute them in one order. So in
each cycle every rank sends what it has requested since the last one to all others. Every rank feeds
the same input to this class and therefore gets the same answers: no rank coordinates.

A request that was answered once is cached under a slot. When a rank makes an equal request again,
it sends one bit. The cache is part of the common state, so a slot means the same on every rank.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lockstep.horovod.torch.mismatch import mismatch
from lockstep.horovod.torch.requests import Request, Response

Key = tuple[int, str]


@dataclass
class Arrival:
    """The requests that one rank sends in one cycle."""

    slots: Sequence[int] = ()
    requests: Sequence[Request] = ()
    joined: bool = False


@dataclass
class _Waiting:
    """A name that some ranks have requested and others have not."""

    since: float
    requests: dict[int, Request] = field(default_factory=dict)
    reported: float = 0.0


@dataclass
class Stall:
    """A name for which ranks have waited long."""

    name: str
    seconds: float
    present: list[int]
    missing: list[int]


class Negotiation:
    """The same on every rank after the same arrivals. It has no thread and sends nothing."""

    def __init__(
        self, size: int, capacity: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = size
        self._capacity = capacity
        self._clock = clock
        self._members: dict[int, list[int]] = {0: list(range(size))}
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._joined: set[int] = set()
        self.version = 0  # of what a slot means
        # The cache: names by slot, slots by name (the least recently used first), and each rank's
        # last request.
        self._slots: list[Key | None] = [None] * capacity
        self._slot_of: OrderedDict[Key, int] = OrderedDict()
        self._last: dict[Key, dict[int, Request]] = {}

    def add_set(self, number: int, ranks: list[int]) -> None:
        self._members[number] = ranks
        self.version += 1

    def remove_set(self, number: int) -> None:
        del self._members[number]
        self.version += 1

    def encode(self, rank: int, requests: Iterable[Request]) -> tuple[list[int], list[Request]]:
        """The requests of a rank as slots, and those that the cache lacks."""
        slots, others = [], []
        for request in requests:
            last = self._last.get(request.key)
            if last is not None and last.get(rank) == request:
                slots.append(self._slot_of[request.key])
            else:
                others.append(request)
        return slots, others

    def agree(self, arrivals: Sequence[Arrival]) -> list[Response]:
        """The collectives that are ready now, in the order of execution."""
        touched: dict[Key, None] = {}
        for rank, arrival in enumerate(arrivals):
            for slot in arrival.slots:
                key = self._slots[slot]
                assert key is not None, "a rank sent a slot that is empty"
                self._arrive(rank, self._last[key][rank], touched)
            for request in arrival.requests:
                self.version += 1
                self._arrive(rank, request, touched)
        before = len(self._joined)
        self._joined.update(rank for rank, arrival in enumerate(arrivals) if arrival.joined)
        candidates = list(self._waiting) if len(self._joined) > before else list(touched)
        return [response for key in candidates if (response := self._response(key))]

    def all_joined(self) -> bool:
        """If so, the state of joining begins again."""
        if len(self._joined) < self._size:
            return False
        self._joined.clear()
        return True

    def is_idle(self) -> bool:
        return not self._waiting and not self._joined

    def agree_on_slots(self, slots: Sequence[int]) -> list[Response]:
        """The same as agree(), if is_idle() and all ranks send these slots and nothing else."""
        keys = self.use_slots(slots)
        return [Response(self._last[key][min(self._last[key])], self._last[key]) for key in keys]

    def use_slots(self, slots: Sequence[int]) -> list[Key]:
        """Counts as a use of these names."""
        keys = [key for slot in slots if (key := self._slots[slot]) is not None]
        for key in keys:
            self._slot_of.move_to_end(key)
        return keys

    def stalls(self, seconds: float) -> list[Stall]:
        """The names that have waited so long since the last report of them."""
        now = self._clock()
        found = []
        for key, waiting in self._waiting.items():
            if now - max(waiting.since, waiting.reported) < seconds:
                continue
            waiting.reported = now
            missing = [each for each in self._members[key[0]] if each not in waiting.requests]
            present = sorted(waiting.requests)
            found.append(Stall(key[1], now - waiting.since, present, missing))
        return found

    def _arrive(self, rank: int, request: Request, touched: dict[Key, None]) -> None:
        key = request.key
        if key not in self._waiting:
            self._waiting[key] = _Waiting(self._clock())
        self._waiting[key].requests[rank] = request
        touched[key] = None

    def _response(self, key: Key) -> Response | None:
        requests = self._waiting[key].requests
        members = self._members[key[0]]
        joined = [rank for rank in members if rank in self._joined and rank not in requests]
        if len(requests) + len(joined) < len(members):
            return None
        del self._waiting[key]
        error = mismatch(requests, joined)
        if error is None and not joined:
            self._keep(key, requests)
        return Response(requests[min(requests)], requests, error)

    def _keep(self, key: Key, requests: dict[int, Request]) -> None:
        if self._capacity == 0:
            return
        if key in self._slot_of:
            self._slot_of.move_to_end(key)
        else:
            slot = len(self._slot_of)
            if slot == self._capacity:
                oldest, slot = self._slot_of.popitem(last=False)
                del self._last[oldest]
            self._slot_of[key] = slot
            self._slots[slot] = key
        self._last[key] = requests
