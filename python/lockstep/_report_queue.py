"""Reports on their way to the one thread that sends them.

A training loop must not pay for waking that thread at each step: a wake-up costs 5 to 10
microseconds. So the thread looks by itself while reports come, 50 times a second, and is woken only
for the first report after a pause and for reports that the program waits for.

The reports wait as the lines that the agent reads. While the thread looks by itself, lockstep.log
adds plain metrics to the lines without any of the code here (``_report_lines``).
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from lockstep._report_lines import Lines

_QUEUED_MAX = 16_384  # reports
_PERIOD = 0.02  # seconds: how often the thread looks
_IDLE_AFTER = 2.0  # seconds without reports, after which it waits to be woken
_FULL_WAIT_MAX = 1.0  # seconds that put() waits for room
_FULL_RETRY_AFTER = 5.0  # seconds without another wait, after one without success


class ReportQueue:
    """Any thread puts reports, one thread takes them.

    Signal handlers may put reports, too: nothing here holds a lock of Python code.
    """

    def __init__(self, run: Callable[[], None], takes_plain: bool = True) -> None:
        """`run` is the thread's function. The first report starts it. `takes_plain`: lockstep.log
        may add plain metrics to `lines`."""
        self.lines = Lines(_QUEUED_MAX)
        self._run = run
        self._takes_plain = takes_plain
        self._objects: deque[Any] = deque()
        self._waits_for_room: deque[threading.Event] = deque()
        self._taken = b""  # by the last take()
        self._taken_marks: list[threading.Event] = []
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_idle = False
        self._idle_at = 0.0
        self._no_wait_until = 0.0
        self._starts = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> bool:
        """False: the queue is full, and no report was taken for a second."""
        if len(self.lines) >= _QUEUED_MAX and not self._has_room():
            return False
        self.lines.add(line)
        if self._is_idle:
            self._wakes.put(None)
        if self._thread is None:
            self._start()
        return True

    def put_now(self, line: bytes) -> None:
        """For what is never dropped, and is sent at once."""
        self.lines.add(line)
        self._wake()

    def put_object(self, what: Any) -> None:
        """For what take() returns as it is, together with the lines before it."""
        self._objects.append(what)
        self._wake()

    def refuse_plain(self) -> None:
        """From now on lockstep.log adds nothing to `lines`."""
        self._takes_plain = False
        self.lines.set_open(False)

    def flush(self, seconds: float) -> bool:
        """Waits until all reports that were put before are sent. False: they need more time."""
        if not self.has_started:
            return True
        mark = threading.Event()
        self._objects.append(mark)
        self._wakes.put(None)
        return mark.wait(seconds)

    def take(self, timeout: float | None = None) -> tuple[bytes, list[Any]]:
        """The lines and objects that wait; none after `timeout` seconds. Those taken before are now
        sent."""
        self.mark_sent()
        self._wait(timeout)
        # First the objects: the lines before them are then among those that are taken.
        objects = [self._objects.popleft() for _ in range(len(self._objects))]
        self._taken = self.lines.take()
        while self._waits_for_room:
            self._waits_for_room.popleft().set()
        self._taken_marks = [each for each in objects if isinstance(each, threading.Event)]
        if self._taken or objects:
            self._idle_at = time.monotonic() + _IDLE_AFTER
        return self._taken, [each for each in objects if not isinstance(each, threading.Event)]

    def mark_sent(self) -> None:
        """The reports of the last take() are sent."""
        for mark in self._taken_marks:
            mark.set()
        self._taken = b""
        self._taken_marks = []

    @property
    def has_started(self) -> bool:
        return self._thread is not None

    @property
    def unsent(self) -> int:
        """How many lines were put and are not sent."""
        return self._taken.count(b"\n") + len(self.lines)

    def _wake(self) -> None:
        self._wakes.put(None)
        if self._thread is None:
            self._start()

    def _wait(self, timeout: float | None) -> None:
        if time.monotonic() < self._idle_at:
            timeout = _PERIOD
        else:
            self._is_idle = True
            self.lines.set_open(False)  # put() wakes this thread, lockstep.log itself does not
        if not (self._is_idle and (len(self.lines) or self._objects)):
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=timeout)
        self._is_idle = False
        self.lines.set_open(self._takes_plain)

    def _has_room(self) -> bool:
        if not self.has_started:
            return True
        if time.monotonic() < self._no_wait_until:
            return False
        taken = threading.Event()
        self._waits_for_room.append(taken)
        self._wakes.put(None)
        if taken.wait(_FULL_WAIT_MAX):
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
