"""Reports of a rank that another launcher has started, to the daemon at LOCKSTEP_URL.

The first report starts a thread. It runs ``lockstep agent --attach``, which finds or starts the
agent of the job on this host, and then sends the reports to that agent. Two connections go there:
one for the reports, and one that is open for as long as this process lives. By the second the agent
learns how the rank ends (docs/design/external-runs.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lockstep._agent import AgentConnection, report_line, warn
from lockstep._report_queue import ReportQueue

if TYPE_CHECKING:
    from lockstep._media import MediaFolder

_START_MAX = 20.0  # seconds for the agent to start
_ANSWER_MAX = 10.0  # seconds for the agent to answer a rank
_FAULT_MAX = 1.0  # seconds that a fault waits for the agent
_ATTACH_MAX = 5.0  # seconds that the end of the program waits for the first connection
_DELIVERY_MAX = 2.0  # seconds that the end of the program waits for the daemon
_NOTES_EVERY = 0.25  # seconds: rank 0 looks for lines of the agent
_ERROR_CHARACTERS = 300
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_IONBF = 2  # of setvbuf(3): no buffer

_Report = Mapping[str, Any]


class ExternalAgent:
    """The agent of this process's job, shared by all threads of the process."""

    def __init__(self, print_report: Callable[[_Report], None]) -> None:
        self._print_report = print_report
        self._finished = 0
        self._session = _Session(print_report)
        self.lines = self._session.lines

    def deliver(self, report: _Report) -> None:
        """Queues the report. Only a fault waits, for a second at most."""
        self._session.deliver(report)

    @property
    def is_attached(self) -> bool:
        """Reports reach the agent of the job. False before the program's first report."""
        return self._session.is_attached

    def finish(self, error: BaseException | str | None) -> None:
        """The rank ends, whatever becomes of its process."""
        session = self._session
        self._finished += 1
        self._session = _Session(self._print_report, number=self._finished)
        self.lines = self._session.lines
        session.leave(_End(_line_of(error)))

    def at_exit(self) -> None:
        # The interpreter keeps the exception that ends the program.
        self._session.leave(_Leave(_line_of(getattr(sys, "last_value", None))))

    def reset_after_fork(self) -> None:
        """In a forked child: the connections belong to the parent, and locks may be held."""
        self._session = self._session.of_child()
        self.lines = self._session.lines


class _Session:
    """From the first report to the end of the rank."""

    def __init__(
        self,
        print_report: Callable[[_Report], None],
        places: _Places | None = None,
        number: int = 0,
    ) -> None:
        self._print_report = print_report
        self._number = number  # of the sessions before it
        self._places = places  # of the process that has forked this one
        self._media: MediaFolder | None = None
        self._queue = ReportQueue(self._run)
        self.lines = self._queue.lines
        self._has_no_agent = False
        self._dropped = 0
        self._presence: _Presence | None = None
        self._reports: AgentConnection | None = None

    def deliver(self, report: _Report) -> None:
        if self._has_no_agent:
            self._print_report(report)
        elif report["kind"] == "media":
            self._queue.put_object(report)
        elif report["kind"] not in ("metrics", "progress"):
            self._queue.put_now(report_line(report))
        elif not self._queue.put(report_line(report)):
            self._dropped += 1
        if report["kind"] == "fault":
            self._queue.flush(_FAULT_MAX)

    @property
    def is_attached(self) -> bool:
        return self._reports is not None

    def leave(self, leave: _Leave) -> None:
        """All reports are sent, and the agent learns of the end; waits a few seconds at most."""
        if not self._queue.has_started:
            return
        if self._presence is None:
            self._queue.flush(_ATTACH_MAX)
        self._queue.put_object(leave)
        leave.is_done.wait(_DELIVERY_MAX + _FAULT_MAX)
        if self._dropped:
            warn(f"{self._dropped} reports were dropped: too many waited")
        if self._reports is not None:
            self._reports.tell_dropped(self._queue.unsent)

    def of_child(self) -> _Session:
        if self._presence is None:
            return _Session(self._print_report, self._places, self._number)
        self._presence.forget()
        return _Session(self._print_report, self._presence.places)

    def _run(self) -> None:
        try:
            self._attach()
        except _NoAgent as error:
            self._give_up(str(error), error.rank)
        except (OSError, ValueError) as error:
            self._give_up(f"the agent of this job cannot be reached: {error}", own_rank())
        hears_notes = self._presence is not None and self._presence.rank == 0
        next_notes = 0.0
        has_ended = False
        while not has_ended:
            lines, objects = self._queue.take(_NOTES_EVERY if hears_notes else None)
            if self._presence is not None and hears_notes and time.monotonic() >= next_notes:
                self._presence.print_notes()
                next_notes = time.monotonic() + _NOTES_EVERY
            self._send(lines)
            for media in objects:
                if not isinstance(media, _Leave):
                    self._write_media(media)
            self._queue.mark_sent()
            for leave in objects:
                if isinstance(leave, _Leave):
                    has_ended = self._leave(leave)

    def _send(self, lines: bytes) -> None:
        if self._reports is not None:
            self._reports.send(lines)
            return
        for line in lines.splitlines():
            self._print_report(json.loads(line))

    def _write_media(self, report: _Report) -> None:
        """The agent sends what is in the folder."""
        if self._media is None:
            if self._places is None or self._places.media is None:
                self._print_report(report)
                return
            from lockstep._media import MediaFolder

            self._media = MediaFolder(self._places.media)
        self._media.add(report["name"], report["media"], report["step"], report["time"], own_rank())

    def _leave(self, leave: _Leave) -> bool:
        """True if the rank has ended."""
        is_end = isinstance(leave, _End)
        if self._presence is not None:
            self._presence.leave(leave.error)
            if is_end:
                self._presence.end(1 if leave.error else 0)
        leave.is_done.set()
        return is_end

    def _attach(self) -> None:
        if self._places is None:
            self._presence = _Presence(_find_agent(self._number))
            self._places = self._presence.places
        self._reports = AgentConnection(self._places.reports)

    def _give_up(self, why: str, rank: int) -> None:
        if rank == 0:
            warn(f"{why}; training goes on, and metrics are printed")
        self._has_no_agent = True
        self._queue.refuse_plain()


class _Leave:
    """The program ends, with this error; empty: with none. It is the last of its queue."""

    def __init__(self, error: str) -> None:
        self.error = error
        self.is_done = threading.Event()


class _End(_Leave):
    """The rank ends, and its process may go on."""


class _NoAgent(Exception):
    def __init__(self, why: str, rank: int) -> None:
        super().__init__(why)
        self.rank = rank


class _Places(NamedTuple):
    """The files of the agent to which a rank writes."""

    reports: str  # a socket
    media: str | None  # a folder; None: an agent of an earlier version


class _Presence:
    """The connection by which the agent knows that this process lives."""

    def __init__(self, agent: dict[str, Any]) -> None:
        self.rank: int = agent["rank"]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_ANSWER_MAX)
        self._socket.connect(agent["socket"])
        self._lines = _Lines(self._socket)
        self._send({name: value for name, value in agent.items() if name != "socket"})
        answer = self._lines.next(_ANSWER_MAX)
        if answer is None or "report" not in answer:
            raise OSError("the agent does not take this rank; its agent.log may say why")
        self.places = _Places(answer["report"], answer.get("media"))
        self._code_fd = os.dup(self._socket.fileno())
        _send_exit_code(self._code_fd)

    def print_notes(self) -> None:
        for line in self._lines.ready():
            if "note" in line:
                warn(line["note"])

    def leave(self, error: str) -> None:
        """Waits until the daemon has all reports, for a bounded time."""
        deadline = time.monotonic() + _DELIVERY_MAX
        try:
            self._send({"leaving": error})
            while (line := self._lines.next(deadline - time.monotonic())) is not None:
                if "note" in line:
                    warn(line["note"])
                if "delivered" in line:
                    return
        except OSError:
            return  # the agent has ended

    def end(self, code: int) -> None:
        """As if the process had exited with this code."""
        with contextlib.suppress(OSError):  # the agent has ended
            self._socket.sendall(bytes([code]))
        self.forget()

    def forget(self) -> None:
        """In a forked child, whose end is not that of the rank."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._code_fd, inheritable=False)
        os.close(null)
        self._socket.close()

    def _send(self, line: Mapping[str, object]) -> None:
        self._socket.sendall(json.dumps(line).encode() + b"\n")


class _Lines:
    """The agent's lines."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._bytes = b""

    def next(self, seconds: float) -> dict[str, Any] | None:
        """None: none comes in this time, or the connection has ended."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._bytes:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                return None
        line, self._bytes = self._bytes.split(b"\n", 1)
        read: dict[str, Any] = json.loads(line)
        return read

    def ready(self) -> list[dict[str, Any]]:
        lines = []
        while (line := self.next(0.0001)) is not None:
            lines.append(line)
        return lines

    def _receive(self, seconds: float) -> bool:
        self._connection.settimeout(seconds)
        try:
            received = self._connection.recv(4096)
        except OSError:  # a time-out, too
            return False
        self._bytes += received
        return bool(received)


def _find_agent(session: int) -> dict[str, Any]:
    """How to reach the agent, and which rank this is."""
    program = _program()
    environment = {**os.environ}
    if session:
        environment["LOCKSTEP_SESSION"] = str(session)
    if name := _name_in_ray():
        environment.setdefault("LOCKSTEP_RUN_NAME", name)
    try:
        ended = subprocess.run(
            [program, "agent", "--attach"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_START_MAX,
            check=False,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise _NoAgent(f"the agent of this job cannot be started: {error}", own_rank()) from None
    except ValueError:
        why = f"{program} starts no agent (`lockstep agent --attach`); is it an older version?"
        raise _NoAgent(why, own_rank()) from None
    if "error" in answer:
        raise _NoAgent(answer["error"], answer["rank"])
    return answer


def _name_in_ray() -> str:
    """The name of the run in Ray Train; empty outside of it. The command of Ray's workers is the
    same for every training, so it names no run."""
    train = sys.modules.get("ray.train")
    if train is None:
        return ""
    try:
        return str(train.get_context().get_experiment_name() or "")
    except Exception:  # Ray's own types of errors: this process is no worker of a training
        return ""


def _program() -> str:
    beside = Path(__file__).with_name("bin") / "lockstep"
    found = str(beside) if beside.exists() else shutil.which("lockstep")
    if found is None:
        why = "LOCKSTEP_URL is set, and there is no program lockstep in PATH that could call it"
        raise _NoAgent(why, own_rank())
    return found


def own_rank() -> int:
    for name in _RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return 0


def _line_of(error: BaseException | str | None) -> str:
    """Empty: there is no error."""
    if error is None:
        return ""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    lines = text.strip().splitlines() or ["an error without a message"]
    return lines[0][:_ERROR_CHARACTERS]


def _send_exit_code(fd: int) -> None:
    """Has exit(3) write the exit code, one byte, to this descriptor.

    Python knows the code of ``raise SystemExit(code)`` only after its last function has run, so a
    function of the C library writes it: ``on_exit(fputc, stream)`` calls ``fputc(code, stream)``.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "on_exit"):  # another C library: the agent takes 0, or 1 after an error
        return
    libc.fdopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.fdopen(fd, b"w"))
    libc.setvbuf(stream, None, _IONBF, ctypes.c_size_t(0))
    libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), stream)
