"""The connection of a rank to its agent's report socket: one JSON object a line.

Training must not stop for it: a thread sends the reports. One that the agent does not take within a
minute is dropped, and so are those of the next five seconds. Dropped reports are counted: a warning
comes with the first one, and the total when the program ends.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from lockstep._environment import log_environment
from lockstep._report_lines import metrics_line
from lockstep._report_queue import ReportQueue

_SEND_MAX = 60.0  # seconds that a report may wait for the agent
_RETRY_AFTER = 5.0  # seconds without a retry after a failure
_DELIVERY_MAX = 1.0  # seconds that the program waits for what must arrive before it goes on
_PASSING = ("metrics", "progress")  # reports that the program does not wait for

_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

_Report = Mapping[str, Any]


class Agent:
    """The agent of this rank, shared by all threads of the process."""

    def __init__(self, path: str) -> None:
        self._connection = AgentConnection(path)
        self._queue = ReportQueue(self._run)
        self.lines = self._queue.lines
        self._is_forked = False
        self._environment = threading.Thread(
            target=log_environment, name="lockstep environment", daemon=True
        )

    def deliver(self, report: _Report) -> None:
        """Raises nothing. Metrics and progress are queued; others are waited for, a second at most.

        A forked child waits for each report, since it may end without notice (`os._exit`).
        """
        line = report_line(report)
        if report["kind"] not in _PASSING:
            self._queue.put_now(line)
        elif not self._queue.put(line):
            self._connection.drop(1, "too many reports wait for it")
        if self._is_forked or report["kind"] not in _PASSING:
            self._queue.flush(_DELIVERY_MAX)

    def finish(self) -> None:
        self._queue.flush(_DELIVERY_MAX)

    def at_exit(self) -> None:
        self._queue.flush(_DELIVERY_MAX)
        if self._environment.ident is not None:
            self._environment.join(_DELIVERY_MAX)
        self._connection.tell_dropped(self._queue.unsent)

    def reset_after_fork(self) -> None:
        """In a forked child: the connection and the queue are those of the parent."""
        self._connection.reset()
        self._queue = ReportQueue(self._run, takes_plain=False)
        self.lines = self._queue.lines
        self._is_forked = True

    def _run(self) -> None:
        self._send_next()
        if not self._is_forked:
            self._environment.start()
        while True:
            self._send_next()

    def _send_next(self) -> None:
        lines, _ = self._queue.take()
        self._connection.send(lines)


class AgentConnection:
    """Used by one thread, except for the count of what is dropped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._retry_at = 0.0
        self._dropped = 0

    def send(self, reports: bytes) -> None:
        """Sends these lines, or counts them as dropped after a minute; raises nothing."""
        lines = _Lines(reports)
        if time.monotonic() < self._retry_at:
            self.drop(lines.left(), "it failed a moment ago")
            return
        try:
            self._send(lines, time.monotonic() + _SEND_MAX)
        except OSError as error:
            self._close()  # half a line may be sent: the next one must not continue it
            self._retry_at = time.monotonic() + _RETRY_AFTER
            self.drop(lines.left(), str(error))

    def drop(self, count: int, reason: str) -> None:
        if count and not self._dropped:
            warn(
                f"the agent at {self._path} does not take reports ({reason}); they are dropped "
                "until it does, training continues"
            )
        self._dropped += count

    def tell_dropped(self, unsent: int) -> None:
        """When the program ends, with `unsent` reports left."""
        if self._dropped + unsent:
            warn(f"{self._dropped + unsent} reports did not reach the agent at {self._path}")

    def reset(self) -> None:
        """In a forked child: the connection belongs to the parent."""
        self._close()
        self._dropped = 0

    def _send(self, lines: "_Lines", deadline: float) -> None:
        if self._socket is not None:
            try:
                lines.send_on(self._socket, deadline)
                return
            except (BrokenPipeError, ConnectionResetError):
                self._close()  # the agent was restarted: connect again
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_left(deadline))
        self._socket.connect(self._path)
        lines.send_on(self._socket, deadline)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Lines:
    """Lines of which some are sent."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    def send_on(self, connection: socket.socket, deadline: float) -> None:
        """After an error, those lines are left that are not sent as a whole."""
        sent = 0
        with memoryview(self._lines) as view:
            try:
                while sent < len(view):
                    connection.settimeout(_left(deadline))
                    sent += connection.send(view[sent:])
            finally:
                self._lines = self._lines[self._lines.rfind(b"\n", 0, sent) + 1 :]

    def left(self) -> int:
        return self._lines.count(b"\n")


def report_line(report: _Report) -> bytes:
    """The report as the agent takes it, with its line end."""
    if report["kind"] == "metrics":
        return metrics_line(report["step"], report["time_us"], report["values"])
    return _encoder.encode(report).encode() + b"\n"


def _left(deadline: float) -> float:
    # Zero would mean "do not block", which reports another error than a timeout.
    return max(deadline - time.monotonic(), 0.001)


def warn(message: str) -> None:
    print(f"lockstep: {message}", file=sys.stderr, flush=True)
