"""Reports into a local folder, without a run or a daemon: ``lockstep import FOLDER`` takes it.

The folder is that of one run. `run.json` has its random id, so that a folder that is imported twice
counts once. `rank-N.jsonl` has the reports of rank N, a line each, as an agent would get them;
`media` has images and histograms. A program that is started again with the same folder goes on
there: steps that it repeats have the newer values.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep._agent import report_line, warn
from lockstep._external import own_rank
from lockstep._report_lines import Lines


class OfflineFolder:
    """Takes the place of an agent."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """
        Raises:
            OSError: the folder cannot be made or written to.
        """
        self.lines = Lines(0)  # never open: each report is written at once
        self.folder = Path(folder).absolute()
        self.rank = own_rank()
        self.media = self.folder / "media"
        self.media.mkdir(parents=True, exist_ok=True)
        self._make_run_file()
        self._failed = False
        path = self.folder / f"rank-{self.rank}.jsonl"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._end_cut_line()

    def _make_run_file(self) -> None:
        """The first rank makes it."""
        path = self.folder / "run.json"
        if path.exists():
            return
        part = self.folder / f".run-{secrets.token_hex(8)}"
        program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else ""
        part.write_text(json.dumps({"id": secrets.token_hex(16), "name": program}) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
        part.unlink()

    def _end_cut_line(self) -> None:
        """A program that was killed may have written a part of a line."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def deliver(self, report: Mapping[str, Any]) -> None:
        """One write: it survives the end of the program, however that comes."""
        if report["kind"] == "fault":
            return  # it is about a run that an agent watches
        timed = {"time_us": time.time_ns() // 1000, **report}
        try:
            os.write(self._file, report_line(timed))
        except OSError as error:
            if not self._failed:
                warn(f"reports are lost: {self.folder}: {error.strerror}")
            self._failed = True

    def finish(self) -> None:
        """Each report is written already."""

    def at_exit(self) -> None:
        """As above."""

    def reset_after_fork(self) -> None:
        """Each write adds a whole line, also beside those of the parent."""
