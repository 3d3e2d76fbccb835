"""The points of a metric: complete or by pixels, with the attempt of each."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from lockstep._client.connection import get
from lockstep._client.daemon import Daemon

_POINTS_MAX = 100_000  # of an answer, over all its series
_POINTS_OF_PIXEL = 5  # first, last, least, greatest, first NaN


class Point(NamedTuple):
    """A value that a rank logged."""

    step: int
    time: datetime  # UTC, microseconds
    value: float
    rank: int
    attempt: int | None  # None: there is no attempt as old as the point


class Points(NamedTuple):
    """The points of a metric, by rank and then by step."""

    points: list[Point]
    downsampled: list[int]  # ranks of which some points are left out


class _Wanted(NamedTuple):
    name: str
    rank: int | None
    attempt: int | None
    pixels: int | None


class _Attempt(NamedTuple):
    created: datetime
    epoch: int


class MissingMetric(LookupError):
    """The run has no points of this metric."""


def read_points(
    daemon: Daemon,
    view: Mapping[str, Any],
    name: str,
    rank: int | None = None,
    attempt: int | None = None,
    pixels: int | None = None,
) -> Points:
    """
    Args:
        view: the run, as the daemon shows it, with its attempts.
        pixels: for each rank at most that many stretches of steps, with five points each.

    Raises:
        DaemonError: the daemon does not answer, or refuses.
        MissingMetric: no rank has logged this metric. The message names those that there are.
        ValueError: pixels is not positive.
    """
    if pixels is not None and pixels <= 0:
        raise ValueError(f"pixels must be positive, got {pixels}")
    found = _series(daemon, view, _Wanted(name, rank, attempt, pixels))
    if not found:
        raise _missing(view, name, rank)
    attempts = _attempts(view)
    points = [
        point
        for each in sorted(found, key=lambda each: int(each["rank"]))
        for point in _points_of(each, attempts)
        if attempt is None or point.attempt == attempt
    ]
    return Points(points, sorted(each["rank"] for each in found if each["downsampled"]))


def _series(daemon: Daemon, view: Mapping[str, Any], wanted: _Wanted) -> list[dict[str, Any]]:
    name, rank, _, pixels = wanted
    ranks = rank_count(view["spec"]) if rank is None else 1
    most = _POINTS_MAX if pixels is None else min(_POINTS_MAX, pixels * _POINTS_OF_PIXEL * ranks)
    answer = _ask(daemon, view, wanted, most)
    found = {each["rank"]: each for each in answer["series"]}
    if rank is None:
        # An answer has room for so many points. One for each rank has more.
        for each in _cut_ranks(answer, found, ranks, pixels):
            alone = _ask(daemon, view, wanted._replace(rank=each), _points_of_rank(pixels))
            found |= {series["rank"]: series for series in alone["series"]}
    _warn_of_removed(view, answer)
    if pixels is None:
        _warn_of_cut(view, name, found)
    return list(found.values())


def _points_of_rank(pixels: int | None) -> int:
    return _POINTS_MAX if pixels is None else min(_POINTS_MAX, pixels * _POINTS_OF_PIXEL)


def _cut_ranks(
    answer: Mapping[str, Any], found: Mapping[int, Any], ranks: int, pixels: int | None
) -> list[int]:
    cut = [] if pixels else [rank for rank, each in found.items() if each["downsampled"]]
    if len(found) == 1:
        cut = []  # it had all the room
    missing = set(range(ranks)) - found.keys() if answer["left_out"] else set()
    return sorted({*cut, *missing})


def _ask(daemon: Daemon, view: Mapping[str, Any], wanted: _Wanted, points: int) -> dict[str, Any]:
    query = {
        "name": wanted.name,
        "rank": wanted.rank,
        "epoch": wanted.attempt,
        "points": points,
        "ranks": "each",
    }
    answer: dict[str, Any] = get(daemon, ["runs", *view["id"].split("/"), "metrics"], query)
    return answer


def rank_count(spec: Mapping[str, Any]) -> int:
    """The ranks of a run; one on each device of each node."""
    return int(spec["nodes"]) * int(spec["devices"]) + int(spec.get("remainder") or 0)


def _missing(view: Mapping[str, Any], name: str, rank: int | None) -> MissingMetric:
    names = sorted(view.get("latest") or {})
    if name in names and rank is not None:
        return MissingMetric(f"rank {rank} of {view['id']} has logged no '{name}'")
    if name in names:
        return MissingMetric(f"the points of '{name}' of {view['id']} were removed")
    has = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none yet"
    return MissingMetric(f"{view['id']} has no metric '{name}'; it has: {has}")


def _warn_of_removed(view: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    if answer.get("removed"):
        warnings.warn(
            f"{answer['removed']} points of {view['id']} were removed long after its end, or to "
            "make room",
            stacklevel=5,
        )


def _warn_of_cut(view: Mapping[str, Any], name: str, found: Mapping[int, Any]) -> None:
    cut = [rank for rank, each in sorted(found.items()) if each["downsampled"]]
    if cut:
        each = found[cut[0]]
        warnings.warn(
            f"'{name}' of {view['id']} has {each['total']} points on rank {cut[0]}, and an answer "
            f"has {_POINTS_MAX} at most: you get the first, last, least and greatest of stretches "
            "of steps. pixels=N asks for that without this warning",
            stacklevel=5,
        )


def _points_of(series: Mapping[str, Any], attempts: Sequence[_Attempt]) -> list[Point]:
    rank = int(series["rank"])
    points = []
    for each in series["points"]:
        time = parse_time(each["time"])
        # JSON has no NaN and no infinity: they come as words, which float() reads.
        value = float(each["value"])
        points.append(Point(int(each["step"]), time, value, rank, _attempt_at(time, attempts)))
    return points


def _attempts(view: Mapping[str, Any]) -> list[_Attempt]:
    """By time. The epoch of an attempt need not be its place in the list."""
    listed = view.get("attempts") or []
    return sorted(_Attempt(parse_time(each["created"]), int(each["epoch"])) for each in listed)


def _attempt_at(time: datetime, attempts: Sequence[_Attempt]) -> int | None:
    """The newest attempt at that time. If the run has only had one, it is certain."""
    if [each.epoch for each in attempts] == [1]:
        return 1
    place = bisect_right([each.created for each in attempts], time)
    return attempts[place - 1].epoch if place else None


def parse_time(text: str) -> datetime:
    """Times of the API are UTC in ISO 8601."""
    return datetime.fromisoformat(text)
