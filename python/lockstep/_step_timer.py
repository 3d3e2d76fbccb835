"""Where the time of steps goes, and the FLOPs of a model: metrics for findings and sums."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lockstep._report import log

Batch = TypeVar("Batch")


class StepTimer:
    """Logs ``step_seconds``, ``data_seconds`` and ``compute_seconds`` of each step of this rank.

    ::

        timer = lockstep.StepTimer()
        for step, batch in enumerate(timer.batches(loader)):
            loss = model(batch)
            loss.backward()
            with timer.waiting():
                average_gradients(model)
            optimizer.step()
            timer.step(step)

    Lockstep compares the compute times of all ranks and names a rank that is slower than the
    others. Ranks that train together wait for each other, so the waits must not be in it.

    Without ``batches``, ``data_seconds`` is the time in which the program waited for PyTorch's
    DataLoader, if Lockstep knows it: under ``lockstep run`` with its backend or ``shard``.

    Args:
        synchronize: waits for the device, such as ``torch.cuda.synchronize``: without it, kernels
            that are queued count where the program first waits for them.
    """

    is_used = False  # by this process: it needs no times of optimizer steps
    loader_seconds: float | None = None  # waits for a DataLoader since the last step; None: unknown

    def __init__(self, synchronize: Callable[[], object] | None = None) -> None:
        StepTimer.is_used = True
        self._synchronize = synchronize
        self._begun = time.monotonic()
        self._data: float | None = None  # without batches()
        self._waiting = 0.0

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of ``loader``; the time until each one is there is data loading."""
        batches = iter(loader)
        while True:
            begun = time.monotonic()
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._data = (self._data or 0.0) + time.monotonic() - begun
            yield batch

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The time within it is no compute time: the rank waits for other ranks."""
        self._wait_for_device()
        begun = time.monotonic()
        try:
            yield
            self._wait_for_device()
        finally:
            self._waiting += time.monotonic() - begun

    def step(self, step: int | None = None) -> None:
        """The optimizer step ``step`` ends. The next one begins."""
        self._wait_for_device()
        now = time.monotonic()
        whole = now - self._begun
        data = StepTimer.loader_seconds if self._data is None else self._data
        times = {"step_seconds": whole}
        if data is not None:
            times["data_seconds"] = data
        times["compute_seconds"] = max(0.0, whole - (data or 0.0) - self._waiting)
        log(times, step)
        self._begun, self._waiting = now, 0.0
        if self._data is not None:
            self._data = 0.0
        StepTimer.loader_seconds = None

    def _wait_for_device(self) -> None:
        if self._synchronize is not None:
            self._synchronize()


_last_flops: float | None = None
_peak: float | None = None  # FLOPs per second


def set_peak_flops(peak: float) -> None:
    """States what the device of this rank could compute: FLOPs per second, such as 989e12 for an
    H100 with bfloat16. `lockstep usage` has the model FLOPs utilization of the steps that follow.

    Raises:
        ValueError: ``peak`` is not a positive number.
    """
    global _peak
    _peak = _checked_peak(peak)


def flops_possible(seconds: float, peak: float | None = None) -> dict[str, float]:
    """The metric of that name: in this time, if the peak of the device is known."""
    known = _peak if peak is None else peak
    return {} if known is None else {"flops_possible": known * seconds}


def log_flops(flops: float, step: int | None = None, peak: float | None = None) -> None:
    """Reports the floating-point operations of the model in the step that ends, on this rank.

    `lockstep usage` sums them by run, user, project and month. With ``peak`` it has the model FLOPs
    utilization as well: the share of what the device could have done since the last call. Under
    ``lockstep run`` Lockstep counts FLOPs itself; these calls take the place of that count.

    Args:
        flops: of the model, as in its mathematics: about 6 x parameters x tokens for a language
            model, without what activation checkpointing computes again.
        step: as for ``log``.
        peak: of the device in FLOPs per second, such as 989e12 for an H100 with bfloat16; by
            default that of ``set_peak_flops``.

    Raises:
        ValueError: a number is negative or not finite, or ``peak`` is zero.
    """
    global _last_flops
    if not 0 <= flops < float("inf"):
        raise ValueError(f"flops must be a number from 0 on, got {flops}")
    if peak is not None:
        peak = _checked_peak(peak)
    now = time.monotonic()
    values = {"flops": float(flops)}
    if _last_flops is not None:
        values.update(flops_possible(now - _last_flops, peak))
    _last_flops = now
    log(values, step)


def _checked_peak(peak: float) -> float:
    if not 0 < peak < float("inf"):
        raise ValueError(f"peak must be a positive number, got {peak}")
    return float(peak)
