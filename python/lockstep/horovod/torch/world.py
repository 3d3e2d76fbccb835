"""hvd.init() and what is known afterwards: ranks, hosts, process sets and the worker."""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

import lockstep.backend
from lockstep.horovod.torch.errors import NotInitializedError
from lockstep.horovod.torch.execution import Group
from lockstep.horovod.torch.meeting import JOIN, Meeting, find_meeting
from lockstep.horovod.torch.process_sets import ProcessSet, global_process_set
from lockstep.horovod.torch.settings import Settings
from lockstep.horovod.torch.timeline import Timeline
from lockstep.horovod.torch.worker import Worker

# A launcher sets one of them, and then also says where the ranks meet.
_LAUNCHERS = ("RANK", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class World:
    """The state between hvd.init() and hvd.shutdown()."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.rank = meeting.members.index(meeting.own)
        self.size = len(meeting.members)
        everyone = list(range(self.size))
        # The worker has one for its exchanges and one for collectives; the third is the caller's.
        control, group = self._connect(everyone), self._connect(everyone)
        self._setup = self._connect(everyone)
        hosts: list[Any] = [None] * self.size
        dist.all_gather_object(hosts, _host(), group=self._setup.group)
        same = [rank for rank, host in enumerate(hosts) if host == hosts[self.rank]]
        self.local_rank, self.local_size = same.index(self.rank), len(same)
        # The ranks with this local rank, one on each host that has so many.
        across = [
            rank for rank in range(self.size) if hosts[:rank].count(hosts[rank]) == self.local_rank
        ]
        self.cross_rank, self.cross_size = across.index(self.rank), len(across)
        self.is_homogeneous = len({hosts.count(host) for host in hosts}) == 1
        self.sets: dict[int, ProcessSet] = {0: global_process_set}
        global_process_set.attach(0, everyone, self.rank)
        self._next_set = 1
        self.counters: dict[tuple[int, str], int] = {}  # of calls without a name
        self.worker = Worker(self.rank, {0: group}, control.group, Settings.from_environment())

    def _connect(self, ranks: list[int]) -> Group:
        """A connection of these ranks. All call it."""
        return Group(ranks, self.meeting.connect(ranks), self.rank)

    def add_set(self, ranks: Sequence[int] | ProcessSet) -> ProcessSet:
        process_set = ranks if isinstance(ranks, ProcessSet) else ProcessSet(ranks)
        wanted = process_set.ranks
        self._check_set(process_set, wanted)
        assert wanted is not None
        number = self._next_set
        self._next_set += 1
        # The worker may learn of other ranks' requests before this rank has the connection, and no
        # rank makes one before the workers of all know the set.
        group = Group(wanted, None, self.rank)
        self.worker.add_set(number, group)
        dist.barrier(group=self._setup.group)
        group.group = self._connect(wanted).group
        process_set.attach(number, wanted, self.rank)
        self.sets[number] = process_set
        return process_set

    def _check_set(self, process_set: ProcessSet, wanted: list[int] | None) -> None:
        if process_set.process_set_id is not None:
            raise ValueError(f"{process_set} is in use already: make another ProcessSet")
        if not wanted or wanted[0] < 0 or wanted[-1] >= self.size:
            raise ValueError(
                f"the process set {wanted}: give ranks from 0 to {self.size - 1}, at least one"
            )
        for other in self.sets.values():
            if other.ranks == wanted:
                raise ValueError(f"the ranks {wanted} are a process set already: use {other}")
        offered: list[Any] = [None] * self.size
        dist.all_gather_object(offered, wanted, group=self._setup.group)
        for rank, each in enumerate(offered):
            if each != offered[0]:
                raise ValueError(
                    f"add_process_set: rank 0 adds {offered[0]}, rank {rank} {each}: every rank of "
                    "the world adds the same sets in the same order"
                )

    def remove_set(self, process_set: ProcessSet) -> bool:
        """False if it is the set of all ranks, or not in use."""
        number = process_set.process_set_id
        if number is None or number == 0:
            return False
        dist.barrier(group=self._setup.group)
        self.worker.remove_set(number)
        del self.sets[number]
        process_set.detach()
        return True

    def close(self) -> None:
        self.worker.stop()
        if self.worker.timeline:
            self.worker.timeline.stop()
        for process_set in self.sets.values():
            process_set.detach()
        global_process_set.ranks = None


_world: World | None = None
_meeting: Meeting | None = None  # of all worlds of this process


def world(call: str) -> World:
    """Raises NotInitializedError with the name of the call."""
    if _world is None:
        raise NotInitializedError(call)
    return _world


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Connects the ranks of the launcher. Further calls do nothing."""
    global _world, _meeting
    if _world is not None:
        return
    if comm is not None and comm != list(range(len(comm) if isinstance(comm, list) else 0)):
        raise ValueError(
            "hvd.init(comm): the ranks come from the launcher: leave comm out, and use "
            "hvd.add_process_set() for some of them"
        )
    lockstep.backend.register()
    if not dist.is_initialized():
        _join_launcher()
    if _meeting is None:
        _meeting = find_meeting()
    _world = World(_meeting)
    atexit.register(shutdown)
    for each in process_sets if isinstance(process_sets, list) else ():
        _world.add_set(each)
    path = _world.worker._settings.timeline
    if path and _world.rank == 0:
        _world.worker.timeline = Timeline(path)


def _join_launcher() -> None:
    joins = os.environ.get(JOIN)
    if not joins and any(os.environ.get(name) for name in _LAUNCHERS):
        dist.init_process_group("lockstep")
    else:  # started alone, as `python train.py`, or to join a world
        dist.init_process_group("lockstep", store=dist.HashStore(), rank=0, world_size=1)


def shutdown() -> None:
    """Ends the collectives of all ranks: what other ranks have under way fails."""
    global _world
    if _world is None:
        return
    closed, _world = _world, None
    atexit.unregister(shutdown)
    closed.close()


def has_joiners() -> bool:
    """Further ranks want to be in this world."""
    return _meeting is not None and _meeting.has_joiners()


def connect_again() -> None:
    """A world of the ranks that are left and of those that want to join."""
    assert _meeting is not None, "there was no world before"
    shutdown()
    _meeting.meet_again()
    init()


def is_initialized() -> bool:
    return _world is not None


def rank() -> int:
    return world("rank()").rank


def size() -> int:
    return world("size()").size


def local_rank() -> int:
    """The number of this rank on its host."""
    return world("local_rank()").local_rank


def local_size() -> int:
    return world("local_size()").local_size


def cross_rank() -> int:
    """The number of this rank's host, among those that have this local rank."""
    return world("cross_rank()").cross_rank


def cross_size() -> int:
    return world("cross_size()").cross_size


def is_homogeneous() -> bool:
    """Every host has as many ranks."""
    return world("is_homogeneous()").is_homogeneous


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Every rank of the world calls it, with the same ranks."""
    return world("add_process_set()").add_set(process_set)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Every rank of the world calls it; False if there is nothing to remove."""
    return world("remove_process_set()").remove_set(process_set)


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Records the collectives of this rank until stop_timeline()."""
    worker = world("start_timeline()").worker
    if worker.timeline:
        raise ValueError("start_timeline: a timeline is recorded already: call stop_timeline()")
    worker.timeline = Timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    worker = world("stop_timeline()").worker
    timeline, worker.timeline = worker.timeline, None
    if timeline:
        timeline.stop()


def _host() -> tuple[str, str]:
    """Two nodes of a run may be on one machine."""
    name = os.environ.get("LOCKSTEP_HOST_ID") or socket.gethostname()
    return name, os.environ.get("GROUP_RANK", "")
