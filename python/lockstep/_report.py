"""Reports from a rank to its agent: metrics, progress, checkpoints, events.

The agent listens on the Unix socket LOCKSTEP_REPORT and takes one JSON object a line. Training must
not stop for it: a call waits one second at most, and after such a failure the reports of the next
five seconds are dropped at once. Dropped reports are counted: a warning comes with the first one,
and the total when the program ends. Without an agent, metrics are printed.
"""

import atexit
import json
import math
import operator
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, SupportsFloat, SupportsIndex

from lockstep._metrics_queue import (
    DeviceNumber,
    Metrics,
    MetricsQueue,
    is_device_tensor,
    read_later,
)

_WAIT_MAX = 1.0  # seconds that a call may wait for the agent
_NAME_BYTES_MAX = 256  # of a metric's name
_REFUSED_NAMES_MAX = 20  # that are listed
_RETRY_AFTER = 5.0  # seconds without a retry after a failure


class _Agent:
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

    def warn_of_dropped(self) -> None:
        if self._dropped:
            _warn(f"{self._dropped} reports did not reach the agent at {self._path}")

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
            _warn(
                f"the agent at {self._path} took no report within {_WAIT_MAX:g} s ({reason}); "
                "reports are dropped until it does, training continues"
            )


def _left(deadline: float) -> float:
    # Zero would mean "do not block", which reports another error than a timeout.
    return max(deadline - time.monotonic(), 0.001)


def _warn(message: str) -> None:
    print(f"lockstep: {message}", file=sys.stderr, flush=True)


def _start() -> _Agent | None:
    path = os.environ.get("LOCKSTEP_REPORT")
    if not path:
        return None
    agent = _Agent(path)
    atexit.register(agent.warn_of_dropped)
    os.register_at_fork(after_in_child=agent.reset_after_fork)
    return agent


_agent = _start()
_refused_names: set[str] = set()
_latest_step = 0


def log(values: Mapping[str, SupportsFloat], step: int | None = None) -> None:
    """Reports metrics, such as ``log({"loss": 2.1, "tokens_per_second": 5e4}, step=12)``.

    Args:
        values: numbers by name: floats, ints, or tensors and arrays of one element. NaN and
            infinities are allowed, and shown as such.
        step: the optimizer step they belong to, counted from 0; by default the latest one reported.

    Raises:
        TypeError: it is no mapping, a value is not a number, or the step not an integer.
        ValueError: the step is negative.

    A metric whose name is empty, has control characters or more than 256 bytes is dropped with a
    warning. It never waits longer than a second and never fails because the agent does.

    A tensor of a GPU is copied without waiting for it. It is sent when it is there: at the next
    call, at an optimizer's step, or when the program ends.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f'metrics have names, as in log({{"loss": 2.1}}), got {values!r}')
    numbers = {
        name: _number(name, value) for name, value in values.items() if _is_metric_name(name)
    }
    _metrics.put(Metrics(_step(step), _now_us(), numbers))


def progress(step: int, steps: int) -> None:
    """Reports that ``step`` of ``steps`` optimizer steps are done. Nothing without an agent.

    Raises:
        TypeError: one of them is not an integer.
        ValueError: the step is negative, or steps is not positive.
    """
    steps = operator.index(steps)
    if steps <= 0:
        raise ValueError(f"steps must be positive, got {steps}")
    at = _step(step)
    if _agent is not None:
        _agent.deliver({"kind": "progress", "step": at, "steps": steps})


def checkpoint(step: int, path: str | os.PathLike[str]) -> None:
    """Reports that the checkpoint of ``step`` is complete, in the file or folder ``path``.

    A path that does not exist is not reported: there is a warning, and training continues.

    Raises:
        TypeError: the step is not an integer, or the path not a path.
        ValueError: the step is negative.
    """
    at = _step(step)
    folder = os.path.abspath(os.fspath(path))
    if not os.path.exists(folder):
        _warn(f"checkpoint of step {at}: there is no {folder}, so it is not reported")
        return
    if _agent is None:
        print(f"step {at}  checkpoint {folder}", flush=True)
        return
    _agent.deliver({"kind": "checkpoint", "step": at, "path": folder})


def event(what: str, step: int | None = None) -> None:
    """Reports an event of the training, in one line: `lockstep show` lists it.

    One rank calls it, and rarely: the newest 200 of a run are kept, 1,000 bytes of each.

    Raises:
        TypeError: ``what`` is not a string, or the step not an integer.
        ValueError: ``what`` is empty, or the step negative.
    """
    if not isinstance(what, str):
        raise TypeError(f"an event is a string, got {what!r}")
    if not what:
        raise ValueError("an event must say something")
    at = _step(step)
    if _agent is None:
        print(f"step {at}  {what}", flush=True)
        return
    _agent.deliver({"kind": "event", "step": at, "time_us": _now_us(), "text": what})


def fault(kind: str, text: str, rank: int = -1) -> None:
    """Reports why this process is about to fail, and the rank at fault (-1: unknown).

    Does nothing without an agent: the exception has the message.
    """
    if _agent is not None:
        _agent.deliver({"kind": "fault", "fault": kind, "rank": rank, "text": text})


def warn_and_report(what: str) -> None:
    """Writes to standard error, and to the run's events if there is an agent."""
    _warn(what)
    if _agent is not None:
        event(what)


def _send_metrics(metrics: Metrics) -> None:
    numbers = {name: float(value) for name, value in metrics.values.items()}
    if _agent is None:
        print(_line(metrics.step, numbers), flush=True)
        return
    shown = {name: _json_number(value) for name, value in numbers.items()}
    _agent.deliver(
        {"kind": "metrics", "step": metrics.step, "time_us": metrics.time_us, "values": shown}
    )


_metrics = MetricsQueue(_send_metrics, _warn)


def _step(step: SupportsIndex | None) -> int:
    global _latest_step
    if step is not None:
        at = operator.index(step)
        if at < 0:
            raise ValueError(f"step must not be negative, got {at}")
        _latest_step = at
    return _latest_step


def _is_metric_name(name: object) -> bool:
    """The daemon's rule. A name that breaks it is reported once."""
    if not isinstance(name, str):
        raise TypeError(f"a metric's name must be a string, got {name!r}")
    is_plain = all(each >= " " and each != "\x7f" for each in name)
    if name and is_plain and len(name.encode(errors="replace")) <= _NAME_BYTES_MAX:
        return True
    shown = name if len(name) <= 40 else name[:40] + "..."
    if shown not in _refused_names and len(_refused_names) < _REFUSED_NAMES_MAX:
        _refused_names.add(shown)
        _warn(
            f"metric {shown!r} is left out: a name has 1 to {_NAME_BYTES_MAX} bytes, none of them "
            "control characters"
        )
    return False


def _number(name: str, value: Any) -> float | DeviceNumber:
    if is_device_tensor(value):
        return _device_number(name, value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"metric '{name}' must be one number, got {value!r}") from error


def _device_number(name: str, tensor: Any) -> float | DeviceNumber:
    """An error of the device passes as it is. Another error does not read the tensor's values."""
    if tensor.numel() != 1 or tensor.is_complex():
        raise TypeError(
            f"metric '{name}' must be one number, got a tensor of shape {list(tensor.shape)} and "
            f"type {tensor.dtype}"
        )
    return read_later(tensor)


def _json_number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _line(step: int, numbers: Mapping[str, float]) -> str:
    return "  ".join([f"step {step}", *(f"{name} {value:.6g}" for name, value in numbers.items())])


def _now_us() -> int:
    return time.time_ns() // 1000
