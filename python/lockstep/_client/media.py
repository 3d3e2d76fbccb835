"""The images and histograms of a run."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lockstep._client.connection import get
from lockstep._client.daemon import Daemon
from lockstep._client.points import parse_time

_AT_ONCE = 1000  # of one answer


@dataclass(frozen=True)
class LoggedImage:
    """An image that a rank has logged.

    Attributes:
        name, step, time, rank, index, caption: as it was logged; index: of several of one call.
        sha256, size: of its file; equal images have the same.
    """

    name: str
    step: int
    time: datetime
    rank: int
    index: int
    caption: str
    sha256: str
    size: int
    _daemon: Daemon = field(repr=False, compare=False)
    _run: str = field(repr=False, compare=False)

    def read(self) -> bytes:
        """Its file.

        Raises:
            DaemonError: the daemon does not answer, or the image was removed.
        """
        query = {"name": self.name, "step": self.step, "rank": self.rank, "index": self.index}
        answer = get(self._daemon, ["runs", *self._run.split("/"), "image"], query)
        return base64.b64decode(answer["data"])


@dataclass(frozen=True)
class LoggedHistogram:
    """Counts of values: ``counts[i]`` of them are between ``edges[i]`` and ``edges[i + 1]``."""

    name: str
    step: int
    time: datetime
    rank: int
    edges: list[float]
    counts: list[float]


def images_of(daemon: Daemon, run: str, name: str | None, rank: int | None) -> list[LoggedImage]:
    return [
        LoggedImage(
            **_place(each),
            index=each["index"],
            caption=each["caption"],
            sha256=each["sha256"],
            size=each["size"],
            _daemon=daemon,
            _run=run,
        )
        for each in _all(daemon, run, "images", name, rank)
    ]


def histograms_of(
    daemon: Daemon, run: str, name: str | None, rank: int | None
) -> list[LoggedHistogram]:
    return [
        LoggedHistogram(**_place(each), edges=each["edges"], counts=each["counts"])
        for each in _all(daemon, run, "histograms", name, rank)
    ]


def _all(
    daemon: Daemon, run: str, kind: str, name: str | None, rank: int | None
) -> Iterator[Mapping[str, Any]]:
    skip = 0
    while True:
        query = {"name": name, "rank": rank, "limit": _AT_ONCE, "skip": skip}
        answer = get(daemon, ["runs", *run.split("/"), kind], query)
        yield from answer[kind]
        skip += len(answer[kind])
        if not answer["more"]:
            return


def _place(each: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": each["name"],
        "step": each["step"],
        "time": parse_time(each["time"]),
        "rank": each["rank"],
    }
