"""Which collectives all ranks are ready for.

Ranks request named collectives in any order, and all ranks must execute them in one order. So in
each cycle every rank sends what it has requested since the last one to all others. Every rank feeds
the same input to this class and therefore gets the same answers: no rank coordinates.

A request that was answered once is cached under a slot. When a rank makes an equal request again,
it sends one bit. The cache is part of the common state, so a slot means the same on every rank. A
set of slots is a number with these bits. A slot is ready when all ranks of its process set have
sent it, which costs an AND for each rank, not a step for each name. A name leaves this fast path
and waits with its requests as soon as a rank requests it in another way, or a rank has joined.
"""

from __future__ import annotations

import functools
import itertools
import operator
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lockstep.horovod.torch.mismatch import mismatch
from lockstep.horovod.torch.requests import Key, Request, Response


@dataclass
class Arrival:
    """The requests that one rank sends in one cycle."""

    slots: int = 0
    requests: Sequence[Request] = ()
    joined: bool = False


@dataclass
class _Waiting:
    """A name that some ranks have requested and others have not."""

    since: float
    requests: dict[int, Request] = field(default_factory=dict)


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
        self._joined: set[int] = set()
        self.version = 0  # of what a slot means
        # The cache: answers by slot, with each rank's last request; slots by name, the least
        # recently used first; the slots of each process set.
        self._answers: list[Response] = []
        self._slot_of: OrderedDict[Key, int] = OrderedDict()
        self._slots_of_set: dict[int, int] = {}
        # Requests that wait for other ranks: the slots that each rank has sent, and since when; the
        # other names, those of them that have a slot, and those that this cycle could complete.
        self._sent = [0] * size
        self._sent_since: list[tuple[float, int]] = []
        self._waiting: dict[Key, _Waiting] = {}
        self._waiting_slots = 0
        self._touched: dict[Key, None] = {}
        self._reported: dict[Key, float] = {}  # when a stall was

    def add_set(self, number: int, ranks: list[int]) -> None:
        self._members[number] = ranks
        self.version += 1

    def remove_set(self, number: int) -> None:
        del self._members[number]
        self.version += 1

    def encode(
        self, rank: int, requests: Iterable[tuple[Key, Request]]
    ) -> tuple[int, list[Request]]:
        """The requests of a rank as slots, and those that the cache lacks."""
        bits, others = bytearray(len(self._answers) // 8 + 1), []
        for key, request in requests:
            slot = self._slot_of.get(key)
            if slot is not None and self._answers[slot].requests.get(rank) == request:
                bits[slot >> 3] |= 1 << (slot & 7)
            else:
                others.append(request)
        return int.from_bytes(bits, "little"), others

    def receive(self, arrivals: Sequence[Arrival]) -> int:
        """The slots that are ready now. agree() must follow, before which answers() has them."""
        for rank, arrival in enumerate(arrivals):
            assert not arrival.slots >> len(self._answers), "a rank sent a slot that is empty"
            self._sent[rank] |= arrival.slots
            self._waiting_slots |= self._slots(request.key for request in arrival.requests)
        before = len(self._joined)
        self._joined.update(rank for rank, arrival in enumerate(arrivals) if arrival.joined)
        if self._joined:
            self._waiting_slots |= functools.reduce(operator.or_, self._sent)
        self._move_to_waiting(self._waiting_slots)
        for rank, arrival in enumerate(arrivals):
            for request in arrival.requests:
                self._arrive(rank, request, self._clock())
        if len(self._joined) > before:
            self._touched.update(dict.fromkeys(self._waiting))
        return self._take_ready_slots()

    def agree(self) -> list[Response]:
        """After receive(): the other collectives that are ready now, in the order of execution."""
        candidates, self._touched = self._touched, {}
        return [response for key in candidates if (response := self._response(key))]

    def answers(self, slots: int) -> list[Response]:
        """In the order of execution."""
        return [self._answers[slot] for slot in _numbers(slots)]

    def use(self, keys: Iterable[Key]) -> None:
        """Counts as a use of these names, which have slots."""
        for key in keys:
            self._slot_of.move_to_end(key)

    def all_joined(self) -> bool:
        """If so, the state of joining begins again."""
        if len(self._joined) < self._size:
            return False
        self._joined.clear()
        return True

    def is_idle(self) -> bool:
        return not self._waiting and not self._joined and not any(self._sent)

    def stalls(self, seconds: float) -> list[Stall]:
        """The names that have waited so long since the last report of them."""
        now = self._clock()
        reported, self._reported = self._reported, {}
        found = []
        for key, since, present in self._waiting_since(now - seconds):
            last = reported.get(key, since)
            if now - last >= seconds:
                last = now
                missing = [each for each in self._members[key[0]] if each not in present]
                found.append(Stall(key[1], now - since, present, missing))
            self._reported[key] = last
        return found

    def _waiting_since(self, latest: float) -> Iterator[tuple[Key, float, list[int]]]:
        """Names that have waited since then or longer, and the ranks that have requested them."""
        for key, waiting in self._waiting.items():
            if waiting.since <= latest:
                yield key, waiting.since, sorted(waiting.requests)
        for since, slots in self._sent_since:
            for slot in _numbers(slots) if since <= latest else ():
                present = [rank for rank, sent in enumerate(self._sent) if sent >> slot & 1]
                yield self._answers[slot].first.key, since, present

    def _slots(self, keys: Iterable[Key]) -> int:
        slots = (self._slot_of.get(key) for key in keys)
        return sum(1 << slot for slot in slots if slot is not None)

    def _take_ready_slots(self) -> int:
        ready = 0
        for number, members in self._members.items():
            every = (self._sent[rank] for rank in members)
            ready |= functools.reduce(operator.and_, every, self._slots_of_set.get(number, 0))
        self._sent = [sent & ~ready for sent in self._sent]
        left = functools.reduce(operator.or_, self._sent)
        known = 0
        for _, slots in self._sent_since:
            known |= slots
        groups = itertools.chain(self._sent_since, [(self._clock(), ~known)] if left else [])
        self._sent_since = [(since, slots & left) for since, slots in groups if slots & left]
        return ready

    def _move_to_waiting(self, slots: int) -> None:
        """These slots wait with their requests from now on, on the ranks that have sent them."""
        for rank, sent in enumerate(self._sent):
            self._sent[rank] = sent & ~slots
            for slot in _numbers(sent & slots):
                since = [since for since, known in self._sent_since if known >> slot & 1]
                request = self._answers[slot].requests[rank]
                self._arrive(rank, request, since[0] if since else self._clock())

    def _arrive(self, rank: int, request: Request, since: float) -> None:
        key = request.key
        if key not in self._waiting:
            self._waiting[key] = _Waiting(since)
        self._waiting[key].requests[rank] = request
        self._touched[key] = None

    def _response(self, key: Key) -> Response | None:
        requests = self._waiting[key].requests
        members = self._members[key[0]]
        joined = [rank for rank in members if rank in self._joined and rank not in requests]
        if len(requests) + len(joined) < len(members):
            return None
        del self._waiting[key]
        self._waiting_slots &= ~self._slots([key])
        response = Response(requests[min(requests)], requests, mismatch(requests, joined))
        if response.error is None and not joined and self._capacity:
            self._keep(key, response)
        return response

    def _keep(self, key: Key, response: Response) -> None:
        self.version += 1
        slot = self._slot_of.get(key)
        if slot is None:
            slot = len(self._answers)
            if slot < self._capacity:
                self._answers.append(response)
            else:
                slot = self._forget_oldest()
            self._slots_of_set[key[0]] = self._slots_of_set.get(key[0], 0) | 1 << slot
        self._answers[slot] = response
        self._slot_of[key] = slot
        self._slot_of.move_to_end(key)

    def _forget_oldest(self) -> int:
        """The slot of the name that was used longest ago, which is free then."""
        key, slot = self._slot_of.popitem(last=False)
        self._move_to_waiting(1 << slot)
        self._waiting_slots &= ~(1 << slot)
        self._slots_of_set[key[0]] &= ~(1 << slot)
        return slot


def _numbers(slots: int) -> list[int]:
    """In ascending order."""
    return [number for number, bit in enumerate(f"{slots:b}"[::-1]) if bit == "1"]
