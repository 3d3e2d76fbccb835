"""The thread of each rank that agrees with the others and executes collectives.

In a cycle all ranks exchange what they have requested, and then execute what all are ready for.
A cycle begins when a caller waits, a short time after a request, or when nothing happens, at
intervals. The exchange itself waits for the slowest rank, so the cycles of all ranks are in step.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from lockstep.horovod.torch.errors import HorovodInternalError, InvalidRequestError
from lockstep.horovod.torch.execution import Group, Task, Work, batches, execute, gather_single
from lockstep.horovod.torch.negotiation import Arrival, Negotiation, Stall
from lockstep.horovod.torch.requests import Request, Response
from lockstep.horovod.torch.settings import Settings
from lockstep.horovod.torch.timeline import Timeline

_IDLE_SECONDS = 0.02  # between cycles while no rank has a request
_JOINED, _SHUTDOWN = 1, 2  # flags of a header
_HEADER = 16  # bytes: flags, then the length of the requests that follow


class Handle:
    """A collective under way. Another thread completes it."""

    def __init__(self, worker: Worker, work: Work, finish: Callable[[Any], Any]) -> None:
        self.work = work
        self.device_ready: Any = None  # an event of the GPU stream that computes the inputs
        self._worker = worker
        self._finish = finish
        self._done = threading.Event()
        self._results: Any = None
        self._error: Exception | None = None

    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> Any:
        if not self._done.is_set():
            self._worker.count_waiting(1)
            self._done.wait()
            self._worker.count_waiting(-1)
        if self._error is not None:
            raise self._error
        return self._finish(self._results)

    def complete(self, results: Any) -> None:
        self._results = results
        self._done.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._done.set()


@dataclass
class _Inbox:
    """Input of the thread from its callers; guarded by the worker's condition."""

    handles: list[Handle] = field(default_factory=list)
    since: float = 0.0  # when the first of them came
    waiting: int = 0  # callers that wait for a handle
    joining: bool = False
    stopping: bool = False


class Worker:
    """One for each hvd.init()."""

    def __init__(self, rank: int, groups: dict[int, Group], control: Any, own: Settings) -> None:
        self.timeline: Timeline | None = None
        self._rank = rank
        self._groups = groups  # by process set
        self._control = control  # the group of the exchanges
        self._settings = own
        self._negotiation = Negotiation(len(groups[0].ranks), own.cache_capacity)
        self._condition = threading.Condition()
        self._inbox = _Inbox()
        self._pending: dict[tuple[int, str], Handle] = {}
        self._failure: Exception | None = None
        self._join_result: int | None = None
        self._was_joined: set[int] = set()
        self._header_size = _HEADER + (own.cache_capacity + 7) // 8
        self._thread = threading.Thread(target=self._run, name="lockstep.horovod", daemon=True)
        self._thread.start()

    def submit(self, handle: Handle) -> None:
        request = handle.work.request
        with self._condition:
            if self._failure is not None:
                raise self._failure
            if request.key in self._pending:
                raise InvalidRequestError(
                    f"{request.name}: this name is under way already: call hvd.synchronize() on "
                    "its handle first, or give another name"
                )
            self._pending[request.key] = handle
            if not self._inbox.handles:
                self._inbox.since = time.monotonic()
                self._condition.notify()
            self._inbox.handles.append(handle)
        if self.timeline:
            self.timeline.begin(request.name, f"NEGOTIATE_{request.call.upper()}")

    def count_waiting(self, change: int) -> None:
        """While a caller waits, a cycle begins as soon as there is something new."""
        with self._condition:
            self._inbox.waiting += change
            self._condition.notify()

    def join(self) -> int:
        """Waits until every rank has joined; the rank that joined last."""
        with self._condition:
            self._inbox.joining = True
            self._join_result = None
            self._condition.notify()
            self._condition.wait_for(lambda: self._join_result is not None or self._failure)
            if self._failure is not None:
                raise self._failure
            assert self._join_result is not None
            return self._join_result

    def stop(self) -> None:
        """Ends the thread, on the other ranks too; what is under way fails there."""
        with self._condition:
            self._inbox.stopping = True
            self._condition.notify()
        self._thread.join()

    def failed(self) -> Exception | None:
        with self._condition:
            return self._failure

    def add_set(self, number: int, group: Group) -> None:
        """All ranks call it between the same cycles, or before any request of that set."""
        self._groups[number] = group
        self._negotiation.add_set(number, group.ranks)

    def remove_set(self, number: int) -> None:
        self._negotiation.remove_set(number)
        del self._groups[number]

    # --- the thread ---

    def _run(self) -> None:
        try:
            progress = False
            while self._failure is None:
                handles, flags = self._next(progress)
                if self.timeline:
                    self.timeline.cycle()
                progress = self._cycle(handles, flags)
        except Exception as error:
            self._fail(HorovodInternalError(f"a rank was lost, or a collective failed: {error}"))

    def _next(self, progress: bool) -> tuple[list[Handle], int]:
        """Waits for the beginning of a cycle."""
        idle = _IDLE_SECONDS if self._negotiation.is_idle() else self._settings.cycle
        with self._condition:
            now = time.monotonic()
            end = now + idle
            while True:
                inbox = self._inbox
                if inbox.stopping or (inbox.waiting and (inbox.handles or progress)):
                    break
                if inbox.handles:
                    end = min(end, inbox.since + self._settings.cycle)
                if (now := time.monotonic()) >= end:
                    break
                self._condition.wait(end - now)
                end = now if inbox.joining else end
            flags = (_JOINED if inbox.joining else 0) | (_SHUTDOWN if inbox.stopping else 0)
            handles, inbox.handles = inbox.handles, []
        return handles, flags

    def _cycle(self, handles: list[Handle], flags: int) -> bool:
        slots, others = self._negotiation.encode(
            self._rank, [handle.work.request for handle in handles]
        )
        arrivals, stopping = self._exchange(slots, others, flags)
        responses = self._negotiation.agree(arrivals)
        self._execute(responses)
        self._end_join(arrivals)
        self._report_stalls()
        if stopping:
            self._fail(
                HorovodInternalError(
                    f"Horovod has been shut down by rank {stopping[0]}: it called hvd.shutdown(), "
                    "ended, or waited too long for a name"
                )
            )
        return bool(responses) or any(each.slots or each.requests for each in arrivals)

    def _exchange(
        self, slots: list[int], others: list[Request], flags: int
    ) -> tuple[list[Arrival], list[int]]:
        """The requests of every rank, and the ranks that shut down."""
        size = len(self._groups[0].ranks)
        body = pickle.dumps(others) if others else b""
        header = bytearray(self._header_size)
        header[0] = flags
        header[8:16] = len(body).to_bytes(8, "little")
        for slot in slots:
            header[_HEADER + slot // 8] |= 1 << slot % 8
        headers = self._gather(header, self._header_size, size)
        lengths = [int.from_bytes(each[8:16], "little") for each in headers]
        bodies = [b""] * size
        if longest := max(lengths):
            bodies = self._gather(bytearray(body), longest, size)
        arrivals = [
            Arrival(
                _slots_of(each[_HEADER:]),
                pickle.loads(text[:length]) if length else (),
                bool(each[0] & _JOINED),
            )
            for each, text, length in zip(headers, bodies, lengths, strict=True)
        ]
        return arrivals, [rank for rank, each in enumerate(headers) if each[0] & _SHUTDOWN]

    def _gather(self, own: bytearray, length: int, size: int) -> list[bytes]:
        own.extend(bytes(length - len(own)))
        gathered = torch.empty(size * length, dtype=torch.uint8)
        gather_single(gathered, torch.frombuffer(own, dtype=torch.uint8), group=self._control)
        text = gathered.numpy().tobytes()
        return [text[at * length : (at + 1) * length] for at in range(size)]

    def _execute(self, responses: list[Response]) -> None:
        tasks = []
        for response in responses:
            group = self._groups[response.first.process_set]
            if self._rank not in group.ranks:
                continue
            with self._condition:
                handle = self._pending.pop(response.first.key, None)
            if handle is not None and self.timeline:
                self.timeline.end(response.first.name)
            if response.error is not None:
                if handle is not None:
                    handle.fail(InvalidRequestError(response.error))
                continue
            tasks.append((Task(response, group, handle.work if handle else None), handle))
        handles = {id(task): handle for task, handle in tasks}
        for batch in batches([task for task, _ in tasks], self._settings.fusion_bytes):
            self._execute_batch(batch, [handles[id(task)] for task in batch])

    def _execute_batch(self, batch: list[Task], handles: list[Handle | None]) -> None:
        call = batch[0].response.first.call.upper()
        timeline = self.timeline
        if timeline:
            for task in batch:
                timeline.begin(task.response.first.name, call)
        try:
            for handle in handles:
                if handle is not None and handle.device_ready is not None:
                    handle.device_ready.wait()
            with torch.no_grad():
                execute(batch)
            if any(handle is not None and handle.device_ready is not None for handle in handles):
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            failure = HorovodInternalError(f"{batch[0].response.first.name}: {error}")
            for handle in handles:
                if handle is not None:
                    handle.fail(failure)
            raise
        for task, handle in zip(batch, handles, strict=True):
            if timeline:
                timeline.end(task.response.first.name)
            if handle is not None:
                handle.complete(task.results)

    def _end_join(self, arrivals: list[Arrival]) -> None:
        joined = {rank for rank, each in enumerate(arrivals) if each.joined}
        last = max(joined - self._was_joined, default=-1)
        self._was_joined = joined
        if not self._negotiation.all_joined():
            return
        self._was_joined = set()
        with self._condition:
            self._inbox.joining = False
            self._join_result = last
            self._condition.notify_all()

    def _report_stalls(self) -> None:
        own = self._settings
        if self._rank != 0 or not own.stall_seconds:
            return
        for stall in self._negotiation.stalls(own.stall_seconds):
            print(_stall_line(stall), file=sys.stderr, flush=True)
            if own.stall_shutdown_seconds and stall.seconds >= own.stall_shutdown_seconds:
                with self._condition:
                    self._inbox.stopping = True

    def _fail(self, error: Exception) -> None:
        with self._condition:
            self._failure = error
            left = list(self._pending.values())
            self._pending.clear()
            self._condition.notify_all()
        for handle in left:
            handle.fail(error)


def _slots_of(bits: bytes) -> list[int]:
    number = int.from_bytes(bits, "little")
    slots = []
    while number:
        lowest = number & -number
        slots.append(lowest.bit_length() - 1)
        number ^= lowest
    return slots


def _stall_line(stall: Stall) -> str:
    return (
        f"lockstep.horovod: {stall.name} has waited for {stall.seconds:.0f} s: ranks "
        f"{stall.present} submitted it, ranks {stall.missing} did not: submit it on every rank of "
        "its process set, or call hvd.join() where there is no more data"
    )
