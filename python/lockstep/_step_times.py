"""Step times of ranks that report none: each step of an optimizer ends a step of the program.

Only under ``lockstep run``, for programs whose tensors are in main memory: the time in which a
program waits for a device is not known here. LOCKSTEP_STEP_TIMES=0 turns it off.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from lockstep._report import log_values
from lockstep._step_timer import StepTimer

_watch: _StepTimes | None = None


def watch_steps() -> None:
    """From now on. Further calls do nothing."""
    global _watch
    is_on = "LOCKSTEP_REPORT" in os.environ and os.environ.get("LOCKSTEP_STEP_TIMES") != "0"
    if _watch is not None or not is_on:
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

        self._take_wait_seconds = communication().take_wait_seconds
        self._optimizer: weakref.ref[Any] | None = None
        self._begun: float | None = None
        self.next = 1

    def end_step(self, optimizer: Any, _arguments: Any, _named: Any) -> None:
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is not optimizer or StepTimer.is_used or _computes_on_device():
            return
        now, waited = time.monotonic(), self._take_wait_seconds()
        if self._begun is not None:
            whole = now - self._begun
            log_values(
                {"step_seconds": whole, "compute_seconds": max(0.0, whole - waited)}, self.next
            )
        self._begun = now
        self.next += 1


def _computes_on_device() -> bool:
    import torch

    return bool(torch.cuda.is_initialized())
