"""The exchange of a cycle: every rank gets the new requests of all ranks.

A header has the requests that the cache knows as bits. Other requests follow in a second gather,
only if a rank has some.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch

from lockstep.horovod.torch.execution import gather
from lockstep.horovod.torch.negotiation import Arrival
from lockstep.horovod.torch.requests import Request

JOINED, SHUTDOWN = 1, 2  # flags of a header
_HEADER = 16  # bytes: flags, then the length of the requests that follow, then the bits


class Exchange:
    """One thread at a time uses it."""

    def __init__(self, group: Any, size: int, capacity: int) -> None:
        self._group = group
        self._size = size
        self._length = _HEADER + (capacity + 7) // 8
        self._header = bytearray(self._length)
        self._own = torch.frombuffer(self._header, dtype=torch.uint8)
        self._gathered = torch.empty(size * self._length, dtype=torch.uint8)
        self._starts = range(0, size * self._length, self._length)
        self._headers = memoryview(self._gathered.numpy())
        self._body = b""

    def exchange(
        self, slots: int, others: list[Request], flags: int
    ) -> tuple[list[Arrival], list[int]]:
        """The requests of every rank, and the ranks that shut down."""
        self._body = pickle.dumps(others) if others else b""
        self._header[0] = flags
        self._header[8:16] = len(self._body).to_bytes(8, "little")
        self._header[_HEADER:] = slots.to_bytes(self._length - _HEADER, "little")
        gather(self._gathered, self._own, self._group)
        headers = [bytes(self._headers[at : at + self._length]) for at in self._starts]
        lengths = [int.from_bytes(each[8:16], "little") for each in headers]
        longest = max(lengths)
        bodies = self._gather_bodies(longest) if longest else [b""] * len(headers)
        arrivals = [
            Arrival(
                int.from_bytes(each[_HEADER:], "little"),
                pickle.loads(text[:length]) if length else (),
                bool(each[0] & JOINED),
            )
            for each, text, length in zip(headers, bodies, lengths, strict=True)
        ]
        return arrivals, [rank for rank, each in enumerate(headers) if each[0] & SHUTDOWN]

    def _gather_bodies(self, length: int) -> list[bytes]:
        own = bytearray(self._body.ljust(length, b"\0"))
        gathered = torch.empty(self._size * length, dtype=torch.uint8)
        gather(gathered, torch.frombuffer(own, dtype=torch.uint8), self._group)
        text = gathered.numpy().tobytes()
        return [text[at * length : (at + 1) * length] for at in range(self._size)]
