"""Times and FLOPs of steps that the program does not report: each step of an optimizer ends one.

Under ``lockstep run``, and in a rank of another launcher from its first report to a daemon on. The
time in which a program computes is known if its tensors are in main memory: a device computes
meanwhile. LOCKSTEP_STEP_TIMES=0 turns all of it off.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from typing import Any

from lockstep._metrics_queue import DeviceNumber
from lockstep._report import has_agent, is_logged, log_values
from lockstep._step_timer import StepTimer, flops_possible

_watch: _StepTimes | None = None


def watch_steps() -> None:
    """From now on. Further calls do nothing."""
    global _watch
    may_have_agent = "LOCKSTEP_REPORT" in os.environ or "LOCKSTEP_URL" in os.environ
    is_off = os.environ.get("LOCKSTEP_STEP_TIMES") == "0"
    if _watch is not None or is_off or not may_have_agent:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    _watch = _StepTimes()
    register_optimizer_step_post_hook(_watch.end_step)


def number_next(step: int) -> None:
    """The step that ends next has this number: a rank may begin in the middle of a training."""
    if _watch is not None:
        _watch.next = step


class _StepTimes:
    """If the program has several optimizers, the steps of the first one count."""

    def __init__(self) -> None:
        from lockstep._compiled import communication

        compiled = communication()
        self._take_wait_seconds = compiled.take_wait_seconds
        self._take_data_seconds = compiled.take_data_seconds
        self._flops = compiled.StepFlops()
        # A worker of a DataLoader that is forked in a step that is counted.
        os.register_at_fork(after_in_child=compiled.end_flop_count)
        self._optimizer: weakref.ref[Any] | None = None
        self._ended = math.nan  # the step before
        self.next = 1

    def end_step(self, optimizer: Any, _arguments: Any, _named: Any) -> None:
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is not optimizer:
            return
        now = time.monotonic()
        seconds, self._ended = now - self._ended, now
        self._log(seconds)
        self.next += 1

    def _log(self, seconds: float) -> None:
        """The metrics of the step that ends. The first one has no beginning."""
        waited, data = self._take_wait_seconds(), self._take_data_seconds()
        flops = self._flops.end_step()
        if math.isnan(seconds):
            return
        values: dict[str, float | DeviceNumber] = {}
        if not StepTimer.is_used:
            values = _times(seconds, waited, data)
        elif data is not None:
            StepTimer.loader_seconds = (StepTimer.loader_seconds or 0.0) + data
        if flops is not None and not is_logged("flops"):
            values.update({"flops": flops, **flops_possible(seconds)})
        if values and has_agent():
            log_values(values, self.next)


def _times(seconds: float, waited: float, data: float | None) -> dict[str, float | DeviceNumber]:
    times: dict[str, float | DeviceNumber] = {"step_seconds": seconds}
    if data is not None:
        times["data_seconds"] = data
    if not _computes_on_device():
        times["compute_seconds"] = max(0.0, seconds - waited - (data or 0.0))
    return times


def _computes_on_device() -> bool:
    import torch

    return bool(torch.cuda.is_initialized())
