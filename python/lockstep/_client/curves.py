"""A metric of many runs in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lockstep._client import files
from lockstep._client.connection import get
from lockstep._client.daemon import chosen_daemon
from lockstep._client.runs import Run

_AXES = ("step", "time", "relative")


def curves(
    metric: str,
    runs: Iterable[Run | str] | None = None,
    *,
    project: str | None = None,
    state: str | None = None,
    tag: str | None = None,
    user: str | None = None,
    limit: int | None = None,
    x: str = "step",
    pixels: int = 200,
    rank: int | None = None,
) -> Any:
    """Curves of a metric of up to 100 runs, as a pandas.DataFrame with one row a point.

    Args:
        metric: such as "loss".
        runs: these runs, or their names; None: the newest that match the next five.
        project, state, tag, user: as ``lockstep.runs``.
        limit: the greatest number of runs, up to 100; None: 20.
        x: "step", "time" (seconds since 1970), "relative" (seconds since the run's first point), or
            a metric such as "tokens", whose value at the same step counts.
        pixels: each of at most that many stretches of x has its first, last, least and greatest
            point and the first NaN.
        rank: of this rank; None: the mean over the ranks.

    Returns:
        Columns run, x (float64) and value (float64), by run and then x. A run without the metric
        has no rows. ``attrs["more"]`` is true if more runs match.

    Raises:
        ImportError: pandas is missing.
        LookupError: one of the runs does not exist.
        DaemonError: the daemon does not answer, or refuses.
    """
    pandas = files.import_for("lockstep.curves", "pandas")
    names = None
    if runs is not None:
        names = ",".join(each.id if isinstance(each, Run) else each for each in runs)
    query = {
        "metric": metric,
        "runs": names,
        "project": project,
        "state": state,
        "tag": tag,
        "user": user,
        "limit": limit,
        "pixels": pixels,
        "rank": rank,
        "x" if x in _AXES else "x_metric": x,
    }
    answer = get(chosen_daemon(), ["curves"], query)
    for each in answer["curves"]:
        if not each["known"]:
            raise LookupError(f"there is no run {each['run']}")
    rows = [
        (each["run"], float(place), float(value))
        for each in answer["curves"]
        for place, value in zip(each["x"], each["values"], strict=True)
    ]
    frame = pandas.DataFrame.from_records(rows, columns=["run", "x", "value"])
    frame = frame.astype({"x": "float64", "value": "float64"})
    frame.attrs.update(metric=metric, more=answer["more"])
    return frame


__all__ = ["curves"]
