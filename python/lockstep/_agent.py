"""The connection of a rank to its agent's report socket: one JSON object a line.

Training must not stop for it: a thread sends the reports. One that the agent does not take within a
minute is dropped, and so are those of the next five seconds. Dropped reports are counted: a warning
comes with the first one, and the total when the program ends.
"""

import functools
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from lockstep._environment import log_environment
from lockstep._report_queue import ReportQueue

_SEND_MAX = 60.0  # seconds that a report may wait for the agent
_RETRY_AFTER = 5.0  # seconds without a retry after a failure
_DELIVERY_MAX = 1.0  # seconds that the program waits for what must arrive before it goes on
_PASSING = ("metrics", "progress")  # reports that the program does not wait for

_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_json_of_name = functools.lru_cache(maxsize=10_000)(_encoder.encode)

_Report = Mapping[str, Any]


class Agent:
    """The agent of this rank, shared by all threads of the process."""

    def __init__(self, path: str) -> None:
        self._connection = AgentConnection(path)
        self._queue = ReportQueue(self._run)
        self._is_forked = False
        self._environment = threading.Thread(
            target=log_environment, name="lockstep environment", daemon=True
        )

    def deliver(self, report: _Report) -> None:
        """Raises nothing. Metrics and progress are queued; others are waited for, a second at most.

        A forked child waits for each report, since it may end without notice (`os._exit`).
        """
        if report["kind"] in _PASSING:
            if not self._queue.put(report):
                self._connection.drop(1, "too many reports wait for it")
        else:
            self._queue.put_now(report)
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
        self._queue = ReportQueue(self._run)
        self._is_forked = True

    def _run(self) -> None:
        self._connection.send(self._queue.take())
        if not self._is_forked:
            self._environment.start()
        while True:
            self._connection.send(self._queue.take())


class AgentConnection:
    """Used by one thread, except for the count of what is dropped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._retry_at = 0.0
        self._dropped = 0

    def send(self, reports: Iterable[_Report]) -> None:
        """Sends them, or counts them as dropped after a minute; raises nothing."""
        lines = _Lines(b"".join(map(report_line, reports)))
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
    if report["kind"] != "metrics":
        return _encoder.encode(report).encode() + b"\n"
    values = ",".join(
        f"{_json_of_name(name)}:{_json_number(value)}" for name, value in report["values"].items()
    )
    line = f'{{"kind":"metrics","step":{report["step"]},"time_us":{report["time_us"]}'
    return f'{line},"values":{{{values}}}}}\n'.encode()


def _json_number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def _left(deadline: float) -> float:
    # Zero would mean "do not block", which reports another error than a timeout.
    return max(deadline - time.monotonic(), 0.001)


def warn(message: str) -> None:
    print(f"lockstep: {message}", file=sys.stderr, flush=True)
