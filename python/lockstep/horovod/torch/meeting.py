"""Where the ranks of a world find each other: keys in the launcher's store.

A world has members. Each has a number that no other process of the run has had: a rank of the
launcher keeps its rank, and a rank that joins later gets the next number. An elastic world changes
in generations: the members that are left and the ranks that want to join meet under the keys of the
next generation, and the first list of members that is proposed decides.
"""

from __future__ import annotations

import datetime
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

JOIN = "LOCKSTEP_HOROVOD_JOIN"  # host:port of the store of a world that runs
_SETTLING_SECONDS = 2.0  # how long ranks wait for others that were not lost
_JOINING_SECONDS = 600.0
_POLL_SECONDS = 0.05
_WORLD = "lockstep.horovod/world"  # the prefix of the world's keys


@dataclass
class Meeting:
    """The members of the present generation, by rank."""

    store: Any  # under the world's prefix
    own: int
    members: list[int]
    generation: int = 0
    _groups: int = 0
    _known_joiners: int = 0

    @staticmethod
    def of_launch() -> Meeting:
        """The ranks of the launcher. Later ranks find the world in the launcher's own store."""
        own, size = dist.get_rank(), dist.get_world_size()
        store = dist.distributed_c10d._get_default_store()
        if own == 0:
            prefix = f"lockstep.horovod/{uuid.uuid4().hex}"
            store.set(_WORLD, prefix)
            _innermost(store).set(_WORLD, prefix)
        prefix = store.get(_WORLD).decode()
        meeting = Meeting(dist.PrefixStore(prefix, _innermost(store)), own, list(range(size)))
        if own == 0:
            meeting.store.set("generation", "0")
            meeting.store.set("launched", str(size))
        return meeting

    @staticmethod
    def of_joiner(address: str) -> Meeting:
        """Waits until the members of a running world admit this process."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{JOIN}={address}: set it to MASTER_ADDR:MASTER_PORT of the world")
        limit = datetime.timedelta(seconds=30)
        inner = dist.TCPStore(host, int(port), is_master=False, timeout=limit)
        store = dist.PrefixStore(inner.get(_WORLD).decode(), inner)
        launched = int(store.get("launched"))
        seen = int(store.get("generation"))
        end = time.monotonic() + _JOINING_SECONDS
        while True:
            meeting = Meeting(store, launched + store.add("joiners", 1) - 1, [])
            while (newest := int(store.get("generation"))) == seen:
                if time.monotonic() >= end:
                    raise RuntimeError(
                        f"elastic: the world at {address} did not admit this rank within "
                        f"{_JOINING_SECONDS:g} s: its script must use hvd.elastic.run and "
                        "state.commit()"
                    )
                time.sleep(_POLL_SECONDS)
            if meeting._was_admitted(newest):
                return meeting
            seen = newest

    def has_joiners(self) -> bool:
        """Ranks that want to join, and have not taken part in a meeting."""
        return bool(self.store.add("joiners", 0) > self._known_joiners)

    def meet_again(self) -> None:
        """Makes a generation of the members that are left and of the ranks that want to join."""
        here = self._begin(self.generation + 1)
        self.store.set("generation", str(self.generation))  # for ranks that want to join
        launched = int(self.store.get("launched"))
        self._known_joiners = self.store.add("joiners", 0)
        joiners = [launched + number for number in range(self._known_joiners)]
        candidates = sorted({*self.members, *joiners})

        def alive() -> list[int]:
            return [each for each in candidates if here.check([f"alive/{each}"])]

        _wait(lambda: here.check(["members"]) or alive() == candidates, _SETTLING_SECONDS)
        # The first to propose decides for all.
        chosen = here.compare_set("members", "", ",".join(map(str, alive())))
        if not self._take(chosen):
            raise RuntimeError(
                f"elastic: rank {self.own} was later than {_SETTLING_SECONDS:g} s, and the others "
                "go on without it: start the run again"
            )

    def _was_admitted(self, generation: int) -> bool:
        here = self._begin(generation)
        _wait(lambda: here.check(["members"]), 5 * _SETTLING_SECONDS)
        return here.check(["members"]) and self._take(here.get("members"))

    def _begin(self, generation: int) -> Any:
        self.generation, self._groups = generation, 0
        here = dist.PrefixStore(f"{generation}", self.store)
        here.set(f"alive/{self.own}", "1")
        return here

    def _take(self, members: bytes) -> bool:
        self.members = [int(each) for each in members.decode().split(",")]
        return self.own in self.members

    def connect(self, ranks: list[int]) -> Any:
        """A group of these ranks over the backend lockstep; None on a rank outside. All members
        call it in one order. torch's new_group() would name it by the ranks and the number of
        groups, which a later generation may have in common with an earlier one."""
        self._groups += 1
        ids = [self.members[rank] for rank in ranks]
        if self.own not in ids:
            return None
        c10d = dist.distributed_c10d
        name = f"horovod.{self.generation}.{self._groups}"
        group, _ = c10d._new_process_group_helper(
            *(len(ids), ids.index(self.own), ids, "lockstep", self.store, c10d.GroupName(name)),
            timeout=c10d._get_default_timeout("lockstep"),
        )
        c10d._world.pg_group_ranks[group] = {each: place for place, each in enumerate(ids)}
        return group


def find_meeting() -> Meeting:
    """The meeting of the world that this process was started for."""
    address = os.environ.get(JOIN)
    return Meeting.of_joiner(address) if address else Meeting.of_launch()


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(_POLL_SECONDS)


def _innermost(store: Any) -> Any:
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store
