"""Metrics on their way to the report.

A metric of a device, such as a loss on a GPU, does not wait for that device: its copy into pinned
memory is queued there. The metrics of that call are sent when the copy is done, and those of later
calls after them. They are looked at when others follow, at each step of an optimizer, and when the
program ends. Not in a thread: its questions would end the capture of a CUDA graph.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

_QUEUED_MAX = 100  # calls whose metrics wait for a device
_WAIT_MAX = 1.0  # seconds that a call waits for the oldest of more
_EXIT_WAIT_MAX = 5.0  # seconds that the end of the program waits for all
_POLL_PAUSE = 0.001  # seconds


def is_device_tensor(value: object) -> bool:
    """True for a tensor that is not in main memory. Imports no torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.device.type != "cpu"


class DeviceNumber:
    """A tensor of one element on its way from a device into main memory."""

    def __init__(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self._device = tensor.device
        if self._is_capturing():
            raise RuntimeError(
                "lockstep.log cannot copy a tensor while a CUDA graph is captured: log the tensor "
                "after graph.replay()"
            )
        self._copy = torch.empty((), dtype=tensor.dtype, pin_memory=True)
        self._copy.copy_(tensor.detach().reshape(()), non_blocking=True)
        self._copied = torch.accelerator.current_stream(tensor.device).record_event()

    def is_here(self) -> bool:
        """Raises RuntimeError if the device has failed."""
        return not self._is_capturing() and bool(self._copied.query())

    def __float__(self) -> float:
        return float(self._copy)

    def _is_capturing(self) -> bool:
        from lockstep._capture import is_capturing

        return is_capturing(self._device)


def read_later(tensor: Any) -> float | DeviceNumber:
    """A subclass, such as DTensor, decides itself how it is read, and may wait for the device."""
    torch = sys.modules["torch"]
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return DeviceNumber(tensor) if is_plain else float(tensor)


class Metrics(NamedTuple):
    """The metrics of one call."""

    step: int
    time_us: int
    values: dict[str, float | DeviceNumber]

    def is_here(self) -> bool:
        return all(each.is_here() for each in self.values.values() if not isinstance(each, float))

    def as_numbers(self) -> Metrics:
        """When they are here."""
        return self._replace(values={name: float(value) for name, value in self.values.items()})


class MetricsQueue:
    """Sends metrics in the order of their calls."""

    def __init__(self, send: Callable[[Metrics], None], warn: Callable[[str], None]) -> None:
        self._send = send
        self._warn = warn
        self._lock = threading.RLock()  # a signal handler may call log(), too
        self.waiting: deque[Metrics] = deque()  # for a device, or for others that do
        self._watches = False

    def put(self, metrics: Metrics, is_here: bool) -> None:
        """Sends them, or keeps them while they (`is_here`) or others before them are not here.

        Raises:
            RuntimeError: the device has failed. All that wait are lost.
        """
        if is_here and not self.waiting:
            self._send(metrics)
            return
        with self._lock:
            self._watch()
            self.waiting.append(metrics)
            self._send_until(_QUEUED_MAX, _WAIT_MAX)
            if len(self.waiting) > _QUEUED_MAX:
                self._drop(1, f"{_QUEUED_MAX} later ones wait for the device, too")

    def send_ready(self) -> None:
        if self.waiting:
            with self._lock:
                self._send_until(_QUEUED_MAX, 0)

    def finish(self) -> None:
        """Waits for a few seconds at most; raises nothing."""
        with self._lock:
            try:
                self._send_until(0, _EXIT_WAIT_MAX)
            except RuntimeError as error:
                self._warn(f"metrics are lost: {str(error).splitlines()[0]}")
            if self.waiting:
                self._drop(len(self.waiting), f"the device needs more than {_EXIT_WAIT_MAX:g} s")

    def _send_until(self, left_max: int, seconds: float) -> None:
        """Sends what is here; waits while more than `left_max` are not."""
        deadline = time.monotonic() + seconds
        while self.waiting:
            if self._first_is_here():
                self._send(self.waiting.popleft().as_numbers())
            elif len(self.waiting) <= left_max or time.monotonic() >= deadline:
                return
            else:
                time.sleep(_POLL_PAUSE)

    def _first_is_here(self) -> bool:
        try:
            return self.waiting[0].is_here()
        except RuntimeError:
            self.waiting.clear()  # a device that has failed computes nothing more
            raise

    def _drop(self, count: int, reason: str) -> None:
        for _ in range(count):
            metrics = self.waiting.popleft()
            self._warn(f"the metrics of step {metrics.step} are lost: {reason}")

    def _watch(self) -> None:
        """From the first metric of a device on."""
        if self._watches:
            return
        self._watches = True
        # Not at the top, as above: without tensors of a device nothing here needs torch.
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda *_: self.send_ready())
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a forked child: the parent sends them, and the lock may be held."""
        self._lock = threading.RLock()
        self.waiting.clear()
