"""Points as files: CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from lockstep._client.points import Point

COLUMNS = Point._fields
_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}


def import_for(what: str, package: str) -> Any:
    """
    Raises:
        ImportError: the package is missing. The message has the command that installs it.
    """
    import importlib

    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # another package is missing within it
        raise ImportError(
            f"{what} needs {package}: install it with `pip install {package}`", name=package
        ) from None


def writer_of(path: str | os.PathLike[str]) -> Callable[[Sequence[Point], Path], None]:
    """The function that writes a file of this name.

    Raises:
        ValueError: the name does not end as one of a known form.
        ImportError: it is Parquet, and pyarrow is missing.
    """
    end = Path(path).suffix.lower()
    if end == ".parquet":
        import_for("an export to Parquet", "pyarrow")
        return _write_parquet
    if end in (".jsonl", ".ndjson"):
        return _write_json_lines
    if end == ".csv":
        return _write_csv
    raise ValueError(
        f"{os.fspath(path)}: the end of the name says the form: .csv, .jsonl or .parquet"
    )


def write_points(
    points: Sequence[Point],
    path: str | os.PathLike[str],
    write: Callable[[Sequence[Point], Path], None],
) -> None:
    """Writes under another name and renames, so that no half of a file is ever there."""
    goal = Path(path).absolute()
    made, name = tempfile.mkstemp(prefix=f".{goal.name}.", suffix=".tmp", dir=goal.parent)
    os.close(made)
    part = Path(name)
    try:
        write(points, part)
        part.chmod(0o666 & ~umask())
        part.replace(goal)
    finally:
        part.unlink(missing_ok=True)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_csv(points: Sequence[Point], path: Path) -> None:
    with _open(path) as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for each in points:
            writer.writerow(each._replace(time=_text(each.time)))  # type: ignore[arg-type]


def _write_json_lines(points: Sequence[Point], path: Path) -> None:
    with _open(path) as file:
        for each in points:
            row = each._asdict() | {"time": _text(each.time), "value": _json_number(each.value)}
            file.write(json.dumps(row, allow_nan=False) + "\n")


def _write_parquet(points: Sequence[Point], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    types = {
        "step": pyarrow.int64(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "value": pyarrow.float64(),
        "rank": pyarrow.int32(),
        "attempt": pyarrow.int32(),
    }
    columns = {
        name: pyarrow.array([point[index] for point in points], type=types[name])
        for index, name in enumerate(COLUMNS)
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="")


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json_number(value: float) -> float | str:
    """The words of the API where JSON has no number."""
    return "NaN" if math.isnan(value) else _WORDS.get(value, value)
