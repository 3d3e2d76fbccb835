"""The connection of a rank to its agent's report socket: one JSON object a line.

Training must not stop for it: a call waits one second at most, and after such a failure the reports
of the next five seconds are dropped at once. Dropped reports are counted: a warning comes with the
first one, and the total when the program ends.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Mapping

_WAIT_MAX = 1.0  # seconds that a call may wait for the agent
_RETRY_AFTER = 5.0  # seconds without a retry after a failure


class Agent:
    """One connection to the agent, shared by all threads of the process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._retry_at = 0.0
        self._dropped = 0

    def deliver(self, report: Mapping[str, object]) -> None:
        """Sends the report, or counts it as dropped; waits one second at most, raises nothing."""
        line = json.dumps(report, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        deadline = time.monotonic() + _WAIT_MAX
        if not self._lock.acquire(timeout=_WAIT_MAX):
            self._drop("another thread waits for it")
            return
        try:
            if time.monotonic() < self._retry_at:
                self._drop("it failed a moment ago")
            else:
                self._send(line, deadline)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_AFTER
            self._drop(str(error))
        finally:
            self._lock.release()

    def finish(self) -> None:
        """Each report is sent already."""

    def at_exit(self) -> None:
        if self._dropped:
            warn(f"{self._dropped} reports did not reach the agent at {self._path}")

    def reset_after_fork(self) -> None:
        """In a forked child: the connection belongs to the parent, and the lock may be held."""
        self._lock = threading.Lock()
        self._close()
        self._dropped = 0

    def _send(self, line: bytes, deadline: float) -> None:
        if self._connection is not None:
            try:
                return self._send_on(self._connection, line, deadline)
            except (BrokenPipeError, ConnectionResetError):
                self._close()  # the agent was restarted: connect again
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connection.settimeout(_left(deadline))
            self._connection.connect(self._path)
            self._send_on(self._connection, line, deadline)
        except OSError:
            self._close()
            raise

    def _send_on(self, connection: socket.socket, line: bytes, deadline: float) -> None:
        connection.settimeout(_left(deadline))
        try:
            connection.sendall(line)
        except TimeoutError:
            self._close()  # half a line may be sent: the next one must not continue it
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _drop(self, reason: str) -> None:
        self._dropped += 1
        if self._dropped == 1:
            warn(
                f"the agent at {self._path} took no report within {_WAIT_MAX:g} s ({reason}); "
                "reports are dropped until it does, training continues"
            )


def _left(deadline: float) -> float:
    # Zero would mean "do not block", which reports another error than a timeout.
    return max(deadline - time.monotonic(), 0.001)


def warn(message: str) -> None:
    print(f"lockstep: {message}", file=sys.stderr, flush=True)
