"""Traces of this rank's next steps, when `lockstep profile` asks for them; docs/guide/profile.md.

The agent writes an order into a folder, and each step of the program looks for it. The header of
src/platform/agent/link/profile_relay.h describes the files. A trace that fails does not end the
training.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from lockstep._trace import packed, rank_events

_TRACE_MAX = 64 << 20  # bytes; kTraceBytesMax of src/platform/api/profile_messages.h
_MESSAGE_MAX = 300


def profile_step() -> None:
    """Ends a step of the program: `lockstep profile` counts steps by it.

    Every rank calls it once a step, anywhere in the loop, on one thread. Programs whose optimizer
    steps a model of lockstep.shard need not. It costs a look at a file while no trace is taken, and
    nothing outside of a run of Lockstep.
    """
    global _is_automatic
    _is_automatic = False
    if _steps is not None:
        _steps.end_one()


def end_step_of(optimizer: object) -> None:
    """The same, by an optimizer of a sharded model; if it has several, the first one counts."""
    global _counted
    if _steps is None or not _is_automatic:
        return
    if _counted is None or _counted() is None:
        _counted = weakref.ref(optimizer)
    if _counted() is optimizer:
        _steps.end_one()


class _Trace:
    """A trace that is being recorded."""

    def __init__(self, order: dict[str, Any], first_step: int) -> None:
        self.order, self._step = order, first_step
        self.steps = 0
        if torch.autograd._profiler_enabled():  # a second one would end it
            raise RuntimeError("the program runs a profiler of its own: ask when it has ended")
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(activities=activities, record_shapes=True)
        self._profiler.start()
        self._begin_step()

    def end_step(self) -> bool:
        """True if that was the last one."""
        self._marker.__exit__(None, None, None)
        self.steps += 1
        if self.steps < self.order["steps"]:
            self._begin_step()
            return False
        self._profiler.stop()
        return True

    def give_up(self) -> None:
        with contextlib.suppress(Exception):  # it may have stopped, or failed to
            self._profiler.stop()

    def events(self, scratch: Path, rank: int) -> bytes:
        self._profiler.export_chrome_trace(str(scratch))
        try:
            trace = json.loads(scratch.read_bytes())
        finally:
            scratch.unlink()
        name = f"rank {rank} (node {_number('LOCKSTEP_NODE')}, device {_number('LOCAL_RANK')})"
        return packed(rank_events(trace, os.getpid(), rank, name, self.order["base_us"]))

    def _begin_step(self) -> None:
        self._marker = record_function(f"ProfilerStep#{self._step + self.steps}")
        self._marker.__enter__()


class _Steps:
    """The steps of this process."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._order = str(self._folder / "order.json")
        self._rank = _number("RANK")
        self._seen = 0  # the last change of the order, in nanoseconds
        self._count = 0
        self._trace: _Trace | None = None
        self._request = ""  # the newest that concerns this rank

    def end_one(self) -> None:
        self._count += 1
        try:
            if self._trace is not None:
                self._go_on(self._trace)
            elif self._has_order():
                self._begin()
            elif self._count == 1:
                self._report("", "waiting", 0)
        except Exception as error:  # of torch's profiler, or of the disk
            self._fail(error)

    def _has_order(self) -> bool:
        try:
            changed = os.stat(self._order).st_mtime_ns
        except OSError:
            return False
        if changed == self._seen:
            return False
        self._seen = changed
        return True

    def _begin(self) -> None:
        order = json.loads(Path(self._order).read_text())
        if all(each["rank"] != self._rank for each in order["ranks"]):
            self._report("", "waiting", 0)
            return
        self._request = str(order["request_id"])
        self._trace = _Trace(order, self._count + 1)
        self._report(self._request, "recording", 0)

    def _go_on(self, trace: _Trace) -> None:
        if not trace.end_step():
            self._report(self._request, "recording", trace.steps)
            return
        self._trace = None
        events = trace.events(self._folder / f"rank-{self._rank}.trace.tmp", self._rank)
        if len(events) > _TRACE_MAX:
            raise ValueError(
                f"the trace of {trace.steps} steps has {len(events) >> 20} MiB, and at most "
                f"{_TRACE_MAX >> 20} MiB are taken: record fewer --steps"
            )
        self._write(f"rank-{self._rank}.gz", events)
        self._report(self._request, "done", trace.steps)

    def _fail(self, error: Exception) -> None:
        if self._trace is not None:
            self._trace.give_up()
        self._trace = None
        why = " ".join(str(error).split())[:_MESSAGE_MAX] or type(error).__name__
        with contextlib.suppress(OSError):  # then the command reports that the rank is silent
            self._report(self._request, "failed", 0, why)

    def _report(self, request: str, state: str, steps: int, message: str = "") -> None:
        state_of = {"request_id": request, "state": state, "steps": steps, "message": message}
        self._write(f"rank-{self._rank}.json", json.dumps(state_of).encode())

    def _write(self, name: str, content: bytes) -> None:
        unfinished = self._folder / f"{name}.tmp"
        unfinished.write_bytes(content)
        unfinished.rename(self._folder / name)


def _number(variable: str) -> int:
    return int(os.environ.get(variable, "0"))


def _open() -> _Steps | None:
    folder = os.environ.get("LOCKSTEP_PROFILE_DIR")
    return _Steps(folder) if folder else None


_steps = _open()
_is_automatic = True  # until the program calls profile_step()
_counted: weakref.ref[object] | None = None
