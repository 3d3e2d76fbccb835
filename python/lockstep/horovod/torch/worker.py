"""Agrees with the other ranks and executes collectives, in cycles.

In a cycle all ranks exchange what they have requested, and then execute what all are ready for.
A cycle begins when a caller waits, a short time after a request, or when nothing happens, at
intervals. The exchange itself waits for the slowest rank, so the cycles of all ranks are in step.

A caller that waits runs the cycles in its own thread, which saves two changes of thread. While no
caller waits, a thread of the worker runs them. The cycle mutex says which of them does.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch.errors import HorovodInternalError, InvalidRequestError
from lockstep.horovod.torch.exchange import JOINED, SHUTDOWN, Exchange
from lockstep.horovod.torch.execution import Batch, Group, Work, batches_of, execute
from lockstep.horovod.torch.negotiation import Arrival, Negotiation, Stall
from lockstep.horovod.torch.requests import Key, Request
from lockstep.horovod.torch.settings import Settings
from lockstep.horovod.torch.timeline import Timeline

_IDLE_SECONDS = 0.02  # between cycles while no rank has a request
_PLANS = 64  # that are kept
_SMALL = 1 << 20  # bytes: to reduce so few beside the computation gains nothing


class Handle(Work):
    """A collective under way. Another thread completes it."""

    __slots__ = ("_error", "_finish", "_is_done", "_results", "_worker", "device_ready", "key")

    def __init__(
        self,
        worker: Worker,
        request: Request,
        inputs: list[Tensor],
        outputs: list[Tensor] | None,
        finish: Callable[[Any], Any],
    ) -> None:
        self.request = request
        self.inputs = inputs
        self.outputs = outputs
        self.key = request.key
        self.device_ready: Any = None  # an event of the GPU stream that computes the inputs
        self._worker = worker
        self._finish = finish
        self._is_done = False
        self._results: Any = None
        self._error: Exception | None = None

    def is_done(self) -> bool:
        return self._is_done

    def wait(self) -> Any:
        if not self._is_done:
            self._worker.run_until_done(self)
        if self._error is not None:
            raise self._error
        return self._finish(self._results)

    def complete(self, results: Any) -> None:
        self._results = results
        self._is_done = True

    def fail(self, error: Exception) -> None:
        self._error = error
        self._is_done = True


@dataclass
class _Inbox:
    """Input of the thread from its callers; guarded by the worker's condition."""

    handles: list[Handle] = field(default_factory=list)
    since: float = 0.0  # when the first of them came
    size: int = 0  # of their tensors, in bytes
    since_wait: int = 0  # requests since a caller last began to wait
    waiting: int = 0  # callers that wait for a handle
    joining: bool = False
    stopping: bool = False


class Worker:
    """One for each hvd.init()."""

    def __init__(self, rank: int, groups: dict[int, Group], control: Any, own: Settings) -> None:
        self.timeline: Timeline | None = None
        self._rank = rank
        self._groups = groups  # by process set
        self._settings = own
        self._negotiation = Negotiation(len(groups[0].ranks), own.cache_capacity)
        # Held during a cycle. It guards the negotiation, the plans and the exchange's memory.
        self._cycle_mutex = threading.Lock()
        self._progress, self._is_idle = False, True  # after the last cycle
        self._cycles = 0
        self._usual = 1  # requests that come before a caller waits
        self._plans: dict[int, list[Batch]] = {}  # by slots
        self._plans_version = -1  # of the negotiation
        self._mutex = threading.RLock()
        self._condition = threading.Condition(self._mutex)
        self._inbox = _Inbox()
        self._pending: dict[Key, Handle] = {}
        self._failure: Exception | None = None
        self._join_result: int | None = None
        self._was_joined: set[int] = set()
        self._exchange = Exchange(control, len(groups[0].ranks), own.cache_capacity)
        self._thread = threading.Thread(target=self._run, name="lockstep.horovod", daemon=True)
        self._thread.start()

    def submit(self, handle: Handle) -> None:
        key = handle.key
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            if key in self._pending:
                raise InvalidRequestError(
                    f"{key[1]}: this name is under way already: call hvd.synchronize() on "
                    "its handle first, or give another name"
                )
            self._pending[key] = handle
            inbox = self._inbox
            if not inbox.handles:
                inbox.since = time.monotonic()
            inbox.handles.append(handle)
            inbox.since_wait += 1
            before = inbox.size
            for tensor in handle.inputs:
                inbox.size += tensor.nbytes
            has_all = len(inbox.handles) == self._usual or before < _SMALL <= inbox.size
            if has_all or inbox.waiting:
                self._condition.notify_all()
        if self.timeline:
            self.timeline.begin(key[1], f"NEGOTIATE_{handle.request.call.upper()}")

    def _has_all(self, inbox: _Inbox) -> bool:
        """The requests of a usual cycle, or large ones. Until then a caller will soon wait, and a
        cycle in between would only be one more."""
        return len(inbox.handles) >= self._usual or inbox.size >= _SMALL

    def run_until_done(self, handle: Handle) -> None:
        """Runs cycles in the caller's thread until the handle is done."""
        with self._condition:
            inbox = self._inbox
            inbox.waiting += 1
            if inbox.since_wait:
                self._usual, inbox.since_wait = inbox.since_wait, 0
        try:
            while not handle.is_done():
                with self._cycle_mutex:
                    if not handle.is_done():
                        self._await_cycle()
                        self._run_cycle()
        finally:
            with self._condition:
                self._inbox.waiting -= 1

    def join(self) -> int:
        """Waits until every rank has joined; the rank that joined last."""
        with self._condition:
            self._inbox.joining = True
            self._join_result = None
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._join_result is not None or self._failure)
            if self._failure is not None:
                raise self._failure
            assert self._join_result is not None
            return self._join_result

    def stop(self) -> None:
        """Ends the thread, on the other ranks too; what is under way fails there."""
        with self._condition:
            self._inbox.stopping = True
            self._condition.notify_all()
        self._thread.join()

    def failed(self) -> Exception | None:
        with self._condition:
            return self._failure

    def add_set(self, number: int, group: Group) -> None:
        """All ranks call it between the same cycles, or before any request of that set."""
        with self._cycle_mutex:
            self._groups[number] = group
            self._negotiation.add_set(number, group.ranks)

    def remove_set(self, number: int) -> None:
        """After all ranks have their results of it. A rank outside the set may still be in the
        cycle of the last one."""
        with self._cycle_mutex:
            self._negotiation.remove_set(number)
            del self._groups[number]

    # --- the thread ---

    def _run(self) -> None:
        while self.failed() is None:
            with self._condition:
                if self._inbox.waiting:  # a caller runs the cycles
                    self._condition.wait(_IDLE_SECONDS)
                    continue
            before = self._cycles
            self._await_cycle()
            with self._cycle_mutex:
                # A caller may have run the cycle. One more would be empty, and delay other ranks
                # until this one has new requests.
                if not self._inbox.waiting and self._cycles == before:
                    self._run_cycle()

    def _await_cycle(self) -> None:
        """Waits for the beginning of a cycle."""
        with self._condition:
            inbox, begin, is_woken = self._inbox, time.monotonic(), False
            seen, grown = 0, begin
            while self._failure is None:
                if inbox.stopping or (inbox.waiting and (inbox.handles or self._progress)):
                    return
                now = time.monotonic()
                if len(inbox.handles) > seen:
                    seen, grown = len(inbox.handles), now
                end = self._next_cycle(begin, grown)
                if now >= end or (is_woken and inbox.joining):
                    return
                is_woken = self._condition.wait(end - now)

    def _next_cycle(self, begin: float, grown: float) -> float:
        """When a cycle begins while no caller waits.

        Args:
            begin: the end of the last cycle.
            grown: when there were more requests than before.
        """
        inbox, cycle = self._inbox, self._settings.cycle
        if not inbox.handles:
            return begin + (_IDLE_SECONDS if self._is_idle else cycle)
        if self._has_all(inbox):
            return inbox.since + cycle
        # A cycle with some of the requests would only be one more.
        latest = inbox.since + _IDLE_SECONDS
        return latest if self._is_idle else min(latest, grown + cycle)

    # --- a cycle, with the cycle mutex held ---

    def _run_cycle(self) -> None:
        if self.failed() is not None:
            return
        self._cycles += 1
        try:
            handles, flags = self._take_inbox()
            if self.timeline:
                self.timeline.cycle()
            self._progress = self._cycle(handles, flags)
            self._is_idle = self._negotiation.is_idle()
        except BaseException as error:
            self._fail(HorovodInternalError(f"a rank was lost, or a collective failed: {error}"))
            if not isinstance(error, Exception):  # such as KeyboardInterrupt, in a caller's thread
                raise

    def _take_inbox(self) -> tuple[list[Handle], int]:
        with self._condition:
            inbox = self._inbox
            flags = (JOINED if inbox.joining else 0) | (SHUTDOWN if inbox.stopping else 0)
            handles, inbox.handles, inbox.size = inbox.handles, [], 0
        return handles, flags

    def _cycle(self, handles: list[Handle], flags: int) -> bool:
        negotiation = self._negotiation
        requests = [(each.key, each.request) for each in handles]
        slots, others = negotiation.encode(self._rank, requests)
        arrivals, stopping = self._exchange.exchange(slots, others, flags)
        ready = negotiation.receive(arrivals)
        batches = self._plan(ready) if ready else []
        batches = batches + batches_of(negotiation.agree(), self._settings.fusion_bytes)
        self._execute(batches)
        self._end_join(arrivals)
        self._report_stalls()
        if stopping:
            self._fail(
                HorovodInternalError(
                    f"Horovod has been shut down by rank {stopping[0]}: it called hvd.shutdown(), "
                    "ended, or waited too long for a name"
                )
            )
        return bool(batches) or any(each.slots or each.requests for each in arrivals)

    def _plan(self, slots: int) -> list[Batch]:
        """The batches to execute when these slots are ready, kept for the next training step."""
        negotiation = self._negotiation
        if self._plans_version != negotiation.version or len(self._plans) == _PLANS:
            self._plans_version = negotiation.version
            self._plans.clear()
        plan = self._plans.get(slots)
        if plan is None:
            plan = batches_of(negotiation.answers(slots), self._settings.fusion_bytes)
            self._plans[slots] = plan
        for batch in plan:
            negotiation.use(batch.keys)
        return plan

    def _execute(self, batches: list[Batch]) -> None:
        for batch in batches:
            first = batch.responses[0]
            group = self._groups[first.first.process_set]
            if self._rank not in group.ranks:
                continue
            with self._mutex:
                handles = [self._pending.pop(key, None) for key in batch.keys]
            if self.timeline:
                for key, handle in zip(batch.keys, handles, strict=True):
                    if handle is not None:
                        self.timeline.end(key[1])
            if first.error is None:
                self._execute_batch(batch, group, handles)
            elif handles[0] is not None:
                handles[0].fail(InvalidRequestError(first.error))

    def _execute_batch(self, batch: Batch, group: Group, handles: list[Handle | None]) -> None:
        first = batch.responses[0].first
        timeline = self.timeline
        if timeline:
            for key in batch.keys:
                timeline.begin(key[1], first.call.upper())
        on_device = [each for each in handles if each] if first.device == "cuda" else []
        try:
            for handle in on_device:
                handle.device_ready.wait()
            with torch.no_grad():
                results = execute(batch, group, handles)
            if on_device:
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            failure = HorovodInternalError(f"{first.name}: {error}")
            for each in handles:
                if each is not None:
                    each.fail(failure)
            raise
        if timeline:
            for key in batch.keys:
                timeline.end(key[1])
        for result, each in zip(results, handles, strict=True):
            if each is not None:
                each.complete(result)

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


def _stall_line(stall: Stall) -> str:
    return (
        f"lockstep.horovod: {stall.name} has waited for {stall.seconds:.0f} s: ranks "
        f"{stall.present} submitted it, ranks {stall.missing} did not: submit it on every rank of "
        "its process set, or call hvd.join() where there is no more data"
    )
