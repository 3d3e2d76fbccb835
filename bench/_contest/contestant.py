"""A contestant: ranks that communicate in one way, started once and controlled line by line.

A rank connects to its contestant's socket and says "rank N"; then each line that it reads is
answered by one (rank.h has them). A rank that waits for a line is blocked in read(), so that only
the contestant whose turn it is uses the processors.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .closeable import Closeable

START_SECONDS = 60.0
ANSWER_SECONDS = 120.0
END_SECONDS = 10.0
EXIT_SECONDS = 0.5


class Failed(Exception):
    """A contestant did not start, ended, was silent or was wrong: which one, and why."""


@dataclass(frozen=True)
class Work:
    """One collective; bytes are those of its larger side."""

    collective: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.collective} {self.bytes}"


@dataclass(frozen=True)
class Entry:
    """How a contestant is started: its command, to which the socket's path is added."""

    name: str
    command: list[str]
    communicates: bool = True  # else it has no results that could be right
    start_seconds: float = START_SECONDS
    answer_seconds: float = ANSWER_SECONDS


class Contestant(Closeable):
    def __init__(self, entry: Entry, ranks: int, folder: Path) -> None:
        self.name = entry.name
        self._entry = entry
        # The bytes that each rank sent to other hosts per call in the last turn; empty: not
        # counted.
        self.payloads: list[float] = []
        path = folder / f"{entry.name}-{ranks}"
        self._log = path.with_suffix(".log")
        with socket.socket(socket.AF_UNIX) as listener, self._log.open("w") as log:
            listener.bind(str(path))
            listener.listen()
            try:
                self._process = subprocess.Popen(
                    [*entry.command, str(path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise Failed(f"{self.name} cannot be started: {error}") from error
            self._streams: list[TextIO] = []
            try:
                self._accept(listener, ranks)
            except BaseException:
                self.close()
                raise

    def check(self, work: Work) -> None:
        """Has one result verified on all ranks."""
        if not self._entry.communicates:
            return
        for rank, answer in enumerate(self.ask(f"check {work}")):
            if answer != "right":
                raise Failed(f"{self.name} is wrong in {work} on rank {rank}: {answer}")

    def take(self, way: str) -> None:
        """Makes all ranks use that algorithm from now on (rank.h)."""
        for rank, answer in enumerate(self.ask(f"take {way}")):
            if answer != "taken":
                raise Failed(f"{self.name} cannot take the way {way} on rank {rank}: {answer}")

    def run(self, work: Work, calls: int) -> float:
        """Seconds of one call: from the first rank's begin to the last one's end, by the calls.

        A rank that gets a processor late begins late: by its own clock it would be as fast as any.
        """
        answers = self.ask(f"run {work} {calls}")
        try:
            said = [[float(word) for word in answer.split()] for answer in answers]
            self.payloads = [sent / calls for _, _, *counted in said for sent in counted]
            return (max(each[1] for each in said) - min(each[0] for each in said)) / calls
        except ValueError:
            raise Failed(f"{self.name} answers no times to {work}: {answers}") from None

    def ask(self, line: str) -> list[str]:
        """The answer of each rank to the line, in rank order."""
        try:
            for stream in self._streams:
                print(line, file=stream, flush=True)
        except OSError as error:
            raise self._failed(f"hears nothing: {error}") from error
        return [self._answer(stream) for stream in self._streams]

    def pause(self) -> None:
        """Stops all its processes until resume(): threads of their own would disturb the others."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Closes the connections, at which the ranks end; kills those that do not end."""
        with contextlib.suppress(ProcessLookupError):
            self.resume()
        for stream in self._streams:
            with contextlib.suppress(OSError):  # a lost rank's last command is still buffered
                stream.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _accept(self, listener: socket.socket, ranks: int) -> None:
        listener.settimeout(0.2)
        deadline = time.monotonic() + self._entry.start_seconds
        by_rank: dict[str, TextIO] = {}
        while len(by_rank) < ranks:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failed(f"has {len(by_rank)} of {ranks} ranks at its start")
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(self._entry.answer_seconds)
            with connection:
                stream = connection.makefile("rw")
            self._streams.append(stream)
            by_rank[self._answer(stream)] = stream
        self._streams = [by_rank[f"rank {rank}"] for rank in range(ranks)]

    def _answer(self, stream: TextIO) -> str:
        try:
            line = stream.readline()
        except TimeoutError as error:
            raise self._failed(f"was silent for {self._entry.answer_seconds:.0f} s") from error
        except OSError as error:
            raise self._failed(f"hung up: {error}") from error
        if not line:
            raise self._failed("hung up")
        return line.strip()

    def _failed(self, what: str) -> Failed:
        # The log may name the reason a moment after the connection closed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        said = self._log.read_text(errors="replace").strip().splitlines()[-15:]
        return Failed("\n".join([f"{self.name} {what}; it said:", *(said or ["nothing"])]))
