"""Runs, as notebooks and scripts read them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lockstep._client import artifacts, files
from lockstep._client.artifacts import Artifact
from lockstep._client.connection import get
from lockstep._client.daemon import Daemon, DaemonError, chosen_daemon
from lockstep._client.media import LoggedHistogram, LoggedImage, histograms_of, images_of
from lockstep._client.parameters import parameters_of
from lockstep._client.points import Points, parse_time, read_points

_RUN = re.compile(r"(?:([A-Za-z0-9._-]+)/)?(\d+)")
_RUNS_MAX = 1000  # of one answer
_LINES = 10_000  # of one answer


class LogLine(NamedTuple):
    """A line that a rank wrote, without its end."""

    rank: int
    attempt: int
    text: str


class Run:
    """A run as it was when it was read; ``refresh()`` reads it again.

    Attributes:
        id: such as "demo/7".
        state: queued, starting, running, succeeded, failed, timed_out or cancelled.
        reason: why it waits or why it ended, in one line.
        name, user, note: strings.
        tags: by key.
        spec: what was asked for, as in a run file; values of `env` are "***".
        results: the last value of each metric, from the lowest rank that logged it.
        submitted, started, ended: UTC; None: not yet.
        view: all that the API says of the run.
    """

    def __init__(self, daemon: Daemon, view: Mapping[str, Any], is_whole: bool = True) -> None:
        self._daemon = daemon
        self._is_whole = is_whole  # an entry of a list has no attempts
        self._set(view)

    def _set(self, view: Mapping[str, Any]) -> None:
        self.view: dict[str, Any] = dict(view)
        self.id: str = view["id"]
        self.state: str = view["state"]
        self.reason: str = view.get("reason") or ""
        self.name: str = view.get("name") or ""
        self.user: str = (view.get("origin") or {}).get("user") or ""
        self.tags: dict[str, str] = dict(view.get("tags") or {})
        self.note: str = view.get("note") or ""
        self.spec: dict[str, Any] = dict(view["spec"])
        self.results: dict[str, float] = {
            name: float(value) for name, value in (view.get("latest") or {}).items()
        }
        self.submitted = _time(view, "submitted")
        self.started = _time(view, "started")
        self.ended = _time(view, "ended")

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.name!r} {self.state}>"

    @property
    def params(self) -> dict[str, Any]:
        """The options of its command, and the configuration that it gave to lockstep.wandb or to a
        logger of lockstep.integrations, where its checkpoint folder can be read from here."""
        return parameters_of(self.view)

    def refresh(self) -> Run:
        """Reads it again, and returns it.

        Raises:
            DaemonError: the daemon does not answer, or the run was removed.
        """
        self._set(get(self._daemon, ["runs", *self.id.split("/")]))
        self._is_whole = True
        return self

    def metrics(
        self,
        name: str,
        rank: int | None = None,
        attempt: int | None = None,
        pixels: int | None = None,
    ) -> Any:
        """The points of a metric, as a pandas.DataFrame with one row a point.

        Args:
            name: such as "loss"; ``results`` has the names.
            rank: only of this rank; None: of all.
            attempt: only of this attempt, from 1. A step that a later attempt repeated has the
                later value.
            pixels: for curves. Only the first, last, least and greatest point and the first NaN of
                each of at most that many stretches of steps, of each rank.

        Returns:
            Columns step (int64), time (UTC, microseconds), value (float64, with NaN and
            infinities), rank (int64) and attempt (Int64), by rank and then step.
            ``attrs["downsampled"]`` lists ranks of which points are left out.

        Raises:
            ImportError: pandas is missing.
            LookupError: there is no such metric. The message names those that there are.
            DaemonError: the daemon does not answer, or the run was removed.
            ValueError: pixels is not positive.
        """
        pandas = files.import_for("Run.metrics", "pandas")
        found = self._points(name, rank, attempt, pixels)
        frame = pandas.DataFrame.from_records(found.points, columns=files.COLUMNS)
        frame = frame.astype(
            {
                "step": "int64",
                "time": "datetime64[us, UTC]",
                "value": "float64",
                "rank": "int64",
                "attempt": "Int64",
            }
        )
        frame.attrs.update(run=self.id, metric=name, downsampled=found.downsampled)
        return frame

    def export(
        self,
        name: str,
        path: str | os.PathLike[str],
        rank: int | None = None,
        attempt: int | None = None,
    ) -> int:
        """Writes the points of a metric to a file: CSV, JSON lines or Parquet, by the end of its
        name (.csv, .jsonl, .parquet). Times are UTC. Needs no pandas; Parquet needs pyarrow.

        Returns:
            The number of points.

        Raises:
            ImportError, LookupError, DaemonError: as ``metrics``.
            ValueError: the name does not end as one of the forms.
            OSError: the file cannot be written.
        """
        write = files.writer_of(path)
        points = self._points(name, rank, attempt, None).points
        files.write_points(points, path, write)
        return len(points)

    def images(self, name: str | None = None, rank: int | None = None) -> list[LoggedImage]:
        """The images that its ranks have logged, by name, step and rank; ``read()`` of one reads
        its file.

        Raises:
            DaemonError: the daemon does not answer, or the run was removed.
        """
        return images_of(self._daemon, self.id, name, rank)

    def histograms(self, name: str | None = None, rank: int | None = None) -> list[LoggedHistogram]:
        """The histograms that its ranks have logged, by name, step and rank.

        Raises:
            DaemonError: the daemon does not answer, or the run was removed.
        """
        return histograms_of(self._daemon, self.id, name, rank)

    def logs(self, rank: int | None = None, tail: int | None = None) -> Iterator[LogLine]:
        """The lines that its ranks have written so far, in the order of their arrival.

        Args:
            rank: only of this rank; None: of all.
            tail: only the last of them, at most 10,000.

        Raises:
            DaemonError: the daemon does not answer, or the run was removed.
        """
        path = ["runs", *self.id.split("/"), "logs"]
        after = 0
        while True:
            query = {"after": after, "rank": rank, "tail": tail, "limit": _LINES}
            page = get(self._daemon, path, query)
            for each in page["lines"]:
                yield LogLine(each["rank"], each["epoch"], each["text"])
            if tail is not None or not page["lines"] or page["next"] <= after:
                return
            after = page["next"]

    def artifacts(self, path: str = "") -> list[Artifact]:
        """The files that it has logged, directly in a folder, and the folders there.

        Args:
            path: a folder, or one artifact; "": the run's own folder.

        Raises:
            DaemonError: the daemon does not answer, or there is no such artifact.
        """
        return artifacts.listed(self._daemon, self.id, path)

    def download_artifact(self, path: str, to: str | os.PathLike[str] = ".") -> Path:
        """Gets a file, or a folder with all below it, and returns where it is.

        Args:
            path: of the artifact or the folder; "": all.
            to: the folder in which it appears under its name.

        Raises:
            DaemonError: as ``artifacts``.
        """
        return artifacts.download(self._daemon, self.id, path, Path(to))

    def log_artifact(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Stores a file, or a folder with all its files, as an artifact of the run, which may have
        ended. You need the right to change the run.

        Args:
            path: of the file or folder.
            name: of the artifact; None: the file's own name.

        Raises:
            FileNotFoundError: there is no such file.
            DaemonError: the daemon does not answer, or it refuses.
        """
        source = Path(path)
        if not source.exists():
            raise FileNotFoundError(f"there is no file {source}")
        artifacts.upload(self._daemon, self.id, source, name or source.resolve().name)

    def _points(
        self, name: str, rank: int | None, attempt: int | None, pixels: int | None
    ) -> Points:
        if not self._is_whole:
            self.refresh()
        return read_points(self._daemon, self.view, name, rank, attempt, pixels)


def runs(
    project: str | None = None,
    state: str | None = None,
    tag: str | None = None,
    user: str | None = None,
    limit: int = _RUNS_MAX,
    query: str | None = None,
) -> list[Run]:
    """Runs that you may read, newest first or in the order of the query.

    Args:
        project, state: only of this project, only in this state.
        tag: only those with it: "KEY" or "KEY=VALUE".
        user: only those that this user submitted.
        limit: the greatest number, up to 1,000.
        query: only those that this line selects, such as "lr>=1e-3 submitted>-7d sort:loss", as
            in the page, without `group:`.

    Raises:
        DaemonError: no daemon answers, or it refuses, such as a state that it does not know.
        ValueError: the limit is not between 1 and 1,000, or the query has groups.
    """
    if not 1 <= limit <= _RUNS_MAX:
        raise ValueError(f"limit must be between 1 and {_RUNS_MAX}, got {limit}")
    daemon = chosen_daemon()
    fields = {"project": project, "state": state, "tag": tag, "user": user, "query": query}
    views: list[dict[str, Any]] = []
    after = None
    while len(views) < limit:  # an answer to a query has the runs that the daemon looked at
        wanted = {**fields, "limit": limit - len(views), "after": after}
        answer = get(daemon, ["runs"], wanted)
        if answer.get("groups"):
            raise ValueError(f"query {query!r}: leave out group:, which lists no runs")
        views += answer["runs"]
        after = answer.get("next") if query is not None else None
        if after is None:
            break
    return [Run(daemon, view, is_whole=False) for view in views]


def run(name: str | int) -> Run:
    """The run with this id, such as "demo/7"; of the project `default` also 7.

    Raises:
        DaemonError: no daemon answers, or there is no such run.
        ValueError: that is no id of a run.
    """
    parts = _RUN.fullmatch(str(name))
    if parts is None:
        raise ValueError(f'{name!r} is no id of a run; write PROJECT/NUMBER, such as "demo/7"')
    daemon = chosen_daemon()
    return Run(daemon, get(daemon, ["runs", parts[1] or "default", parts[2]]))


def _time(view: Mapping[str, Any], field: str) -> datetime | None:
    text = view.get(field)
    return parse_time(text) if text else None


__all__ = ["Artifact", "DaemonError", "LogLine", "Run", "run", "runs"]
