"""Reports from a rank to its agent: metrics, progress, checkpoints, events.

The agent listens on the Unix socket LOCKSTEP_REPORT. A rank of another launcher has none: if
LOCKSTEP_URL is set, its first report finds or starts the agent of its job. LOCKSTEP_OFFLINE names a
folder to write them to instead. Without all of these, metrics are printed.
"""

from __future__ import annotations

import atexit
import operator
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from lockstep._agent import Agent, warn
from lockstep._external import ExternalAgent, own_rank
from lockstep._metrics_queue import (
    DeviceNumber,
    Metrics,
    MetricsQueue,
    is_device_tensor,
    read_later,
)
from lockstep._offline import OfflineFolder

if TYPE_CHECKING:
    from lockstep._media import Histogram, Image, MediaFolder

_NAME_BYTES_MAX = 256  # of a metric's name
_NAMES_MAX = 10_000  # that are known to be valid; further ones are tested at each call
_REFUSED_NAMES_MAX = 20  # that are listed


def _start() -> Agent | ExternalAgent | OfflineFolder | None:
    path = os.environ.get("LOCKSTEP_REPORT")
    offline = os.environ.get("LOCKSTEP_OFFLINE")
    if path:
        agent: Agent | ExternalAgent | OfflineFolder = Agent(path)
    elif offline:
        try:
            agent = OfflineFolder(offline)
        except OSError as error:
            warn(f"LOCKSTEP_OFFLINE: {error}; metrics are printed")
            return None
    elif os.environ.get("LOCKSTEP_URL"):
        agent = ExternalAgent(_print_report)
    else:
        return None
    atexit.register(agent.at_exit)
    os.register_at_fork(after_in_child=agent.reset_after_fork)
    return agent


def _print_report(report: Mapping[str, Any]) -> None:
    """As without an agent."""
    if report["kind"] == "metrics":
        numbers = {name: float(value) for name, value in report["values"].items()}
        print(_line(report["step"], numbers), flush=True)
    elif report["kind"] == "checkpoint":
        print(f"step {report['step']}  checkpoint {report['path']}", flush=True)
    elif report["kind"] == "event":
        print(f"step {report['step']}  {report['text']}", flush=True)
    elif report["kind"] == "media":
        kinds = ", ".join(sorted({type(each).__name__ for each in report["media"]}))
        print(f"step {report['step']}  {report['name']} {kinds}", flush=True)


_agent = _start()
_metric_names: set[str] = set()  # that are valid
_media_folder: MediaFolder | None = None
_refused_names: set[str] = set()
_latest_step = 0


def offline(folder: str | os.PathLike[str]) -> None:
    """Has this process write its reports into a folder, as LOCKSTEP_OFFLINE does. Call it before
    the first report. ``lockstep import FOLDER`` makes a run of it; imported twice, it counts once.

    Under ``lockstep run`` it has no effect: the reports go to the run.

    Raises:
        OSError: the folder cannot be made or written to.
    """
    global _agent, _media_folder
    if os.environ.get("LOCKSTEP_REPORT"):
        return
    _agent = OfflineFolder(folder)
    _media_folder = None


def log(values: Mapping[str, SupportsFloat | Any], step: int | None = None) -> None:
    """Reports metrics, such as ``log({"loss": 2.1, "tokens_per_second": 5e4}, step=12)``.

    Args:
        values: numbers by name: floats, ints, or tensors and arrays of one element. NaN and
            infinities are allowed, and shown as such. Besides lockstep.Image, lockstep.Histogram,
            images of PIL, figures, arrays of numpy with two or three dimensions, and lists of them.
        step: the optimizer step they belong to, counted from 0; by default the latest one reported.

    Raises:
        TypeError: it is no mapping, a value is not a number, or the step not an integer.
        ValueError: the step is negative.

    A metric whose name is empty, has control characters or more than 256 bytes is dropped with a
    warning. It never waits longer than a second and never fails because the agent does. A thread
    sends the metrics within 20 ms, so a process that is killed loses those of its last 20 ms.

    A tensor of a GPU is copied without waiting for it. It is sent when it is there: at the next
    call, at an optimizer's step, or when the program ends.
    """
    global _latest_step
    at = _latest_step if step is None else step
    if _agent is not None and not _metrics.waiting and _agent.lines.put(values, at, _metric_names):
        _latest_step = at
        return
    _log_any(values, step)


def _log_any(values: Mapping[str, SupportsFloat | Any], step: int | None) -> None:
    """Sends metrics that need more than a line in the buffer, such as a tensor."""
    if type(values) is not dict and not isinstance(values, Mapping):
        raise TypeError(f'metrics have names, as in log({{"loss": 2.1}}), got {values!r}')
    numbers: dict[str, float | DeviceNumber] = {}
    others: dict[str, list[Image | Histogram]] = {}
    is_here = True
    for name, value in values.items():
        if name not in _metric_names and not _is_metric_name(name):
            continue
        if type(value) is float:
            numbers[name] = value
        elif media := _media_of(value):
            others[name] = media
        else:
            number = _number(name, value)
            numbers[name] = number
            is_here = is_here and type(number) is float
    at, time_us = _step(step), _now_us()
    for name, media in others.items():
        _keep_media(name, media, at, time_us)
    if numbers or not others:
        _metrics.put(Metrics(at, time_us, numbers), is_here)


def log_values(values: dict[str, float | DeviceNumber], step: int) -> None:
    """Metrics of Lockstep itself: the program's latest step stays."""
    _metrics.put(Metrics(step, _now_us(), values), True)


def is_logged(name: str) -> bool:
    """True if the program has reported this metric."""
    return name in _metric_names


def has_agent() -> bool:
    """False in a rank of another launcher before its first report reaches an agent."""
    return isinstance(_agent, Agent) or (isinstance(_agent, ExternalAgent) and _agent.is_attached)


def _media_of(value: Any) -> list[Image | Histogram]:
    """Numbers and tensors need no look at their content."""
    if isinstance(value, (float, int)) or is_device_tensor(value):
        return []
    from lockstep._media import as_media

    return as_media(value)


def keeps_media() -> bool:
    """Images and histograms are kept, not printed."""
    in_run = bool(os.environ.get("LOCKSTEP_MEDIA_DIR"))
    return in_run or isinstance(_agent, (ExternalAgent, OfflineFolder))


def _keep_media(name: str, media: list[Image | Histogram], step: int, time_us: int) -> None:
    """Into the folder from which they are sent; without one, a line says that there were some."""
    global _media_folder
    folder = os.environ.get("LOCKSTEP_MEDIA_DIR")
    if isinstance(_agent, OfflineFolder):
        folder = str(_agent.media)
    if not folder:
        report = {"kind": "media", "name": name, "media": media, "step": step, "time": time_us}
        if isinstance(_agent, ExternalAgent):
            _agent.deliver(report)
        else:
            _print_report(report)
        return
    if _media_folder is None:
        from lockstep._media import MediaFolder

        _media_folder = MediaFolder(folder)
    _media_folder.add(name, media, step, time_us, own_rank())


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
        warn(f"checkpoint of step {at}: there is no {folder}, so it is not reported")
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


def finish(error: BaseException | str | None = None) -> None:
    """Waits a few seconds at most until all reports of this rank are delivered, and ends the rank.

    A rank ends with its process, and needs no call. Call it where the process goes on or is killed
    after the training, as in a notebook or a worker of Ray Train. The rank has then succeeded, or
    failed with this error. Later reports begin another run. Under ``lockstep run``, where the exit
    code of the process counts, it only waits for tensors of a GPU.
    """
    _metrics.finish()
    if isinstance(_agent, ExternalAgent):
        _agent.finish(error)
    elif _agent is not None:
        _agent.finish()


def fault(kind: str, text: str, rank: int = -1) -> None:
    """Reports why this process is about to fail, and the rank at fault (-1: unknown).

    Does nothing without an agent: the exception has the message.
    """
    if _agent is not None:
        _agent.deliver({"kind": "fault", "fault": kind, "rank": rank, "text": text})


def warn_and_report(what: str) -> None:
    """Writes to standard error, and to the run's events if there is an agent."""
    warn(what)
    if _agent is not None:
        event(what)


def _send_metrics(metrics: Metrics) -> None:
    step, time_us, values = metrics
    if _agent is None:
        print(_line(step, {name: float(value) for name, value in values.items()}), flush=True)
    else:
        _agent.deliver({"kind": "metrics", "step": step, "time_us": time_us, "values": values})


_metrics = MetricsQueue(_send_metrics, warn)


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
        if len(_metric_names) < _NAMES_MAX:
            _metric_names.add(name)
        return True
    shown = name if len(name) <= 40 else name[:40] + "..."
    if shown not in _refused_names and len(_refused_names) < _REFUSED_NAMES_MAX:
        _refused_names.add(shown)
        warn(
            f"metric {shown!r} is left out: a name has 1 to {_NAME_BYTES_MAX} bytes, none of them "
            "control characters"
        )
    return False


def _number(name: str, value: Any) -> float | DeviceNumber:
    if is_device_tensor(value):
        return _device_number(name, value)
    try:
        if getattr(value, "requires_grad", False):  # torch warns of its conversion
            value = value.detach()
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


def _line(step: int, numbers: Mapping[str, float]) -> str:
    return "  ".join([f"step {step}", *(f"{name} {value:.6g}" for name, value in numbers.items())])


def _now_us() -> int:
    return time.time_ns() // 1000
