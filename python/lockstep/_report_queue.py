"""Reports on their way to the one thread that sends them.

A training loop must not pay for waking that thread at each step: a wake-up costs 5 to 10
microseconds. So the thread looks by itself while reports come, 50 times a second, and is woken only
for the first report after a pause and for reports that the program waits for.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_QUEUED_MAX = 16_384  # reports
_PERIOD = 0.02  # seconds: how often the thread looks
_IDLE_AFTER = 2.0  # seconds without reports, after which it waits to be woken
_FULL_WAIT_MAX = 1.0  # seconds that put() waits for room
_FULL_RETRY_AFTER = 5.0  # seconds without another wait, after one without success


class ReportQueue:
    """Any thread puts reports, one thread takes them.

    Signal handlers may put reports, too: nothing here holds a lock of Python code.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        """`run` is the thread's function. The first report starts it."""
        self._run = run
        self._reports: deque[Any] = deque()
        self._taken: list[Any] = []  # by the last take()
        self._taken_marks: list[threading.Event] = []
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_idle = False
        self._idle_at = 0.0
        self._no_wait_until = 0.0
        self._starts = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, report: Any) -> bool:
        """False: the queue is full, and no report was sent for a second."""
        if len(self._reports) >= _QUEUED_MAX and not self._has_room():
            return False
        self._reports.append(report)
        if self._is_idle:
            self._wakes.put(None)
        if self._thread is None:
            self._start()
        return True

    def put_now(self, report: Any) -> None:
        """For what is never dropped, and is sent at once."""
        self._reports.append(report)
        self._wakes.put(None)
        if self._thread is None:
            self._start()

    def flush(self, seconds: float) -> bool:
        """Waits until all reports that were put before are sent. False: they need more time."""
        if not self.has_started:
            return True
        mark = threading.Event()
        self._reports.append(mark)
        self._wakes.put(None)
        return mark.wait(seconds)

    def take(self, timeout: float | None = None) -> list[Any]:
        """The reports that wait; none after `timeout` seconds. Those taken before are now sent."""
        self.mark_sent()
        self._wait(timeout)
        waiting = [self._reports.popleft() for _ in range(len(self._reports))]
        self._taken_marks = [each for each in waiting if isinstance(each, threading.Event)]
        self._taken = [each for each in waiting if not isinstance(each, threading.Event)]
        if waiting:
            self._idle_at = time.monotonic() + _IDLE_AFTER
        return self._taken

    def mark_sent(self) -> None:
        """The reports of the last take() are sent."""
        for mark in self._taken_marks:
            mark.set()
        self._taken = []
        self._taken_marks = []

    @property
    def has_started(self) -> bool:
        return self._thread is not None

    @property
    def unsent(self) -> int:
        """How many reports were put and are not sent."""
        waiting = [each for each in list(self._reports) if not isinstance(each, threading.Event)]
        return len(self._taken) + len(waiting)

    def _wait(self, timeout: float | None) -> None:
        if time.monotonic() < self._idle_at:
            timeout = _PERIOD
        else:
            self._is_idle = True
        if not (self._is_idle and self._reports):
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=timeout)
        self._is_idle = False

    def _has_room(self) -> bool:
        if time.monotonic() < self._no_wait_until:
            return False
        if self.flush(_FULL_WAIT_MAX):
            return True
        self._no_wait_until = time.monotonic() + _FULL_RETRY_AFTER
        return False

    def _start(self) -> None:
        with self._starts:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="lockstep reports", daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter is ending
                thread.start()
                self._thread = thread
