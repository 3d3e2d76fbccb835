"""wandb.Image, Table, Histogram and others: Lockstep writes them as files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lockstep import _media
from lockstep._client.files import import_for
from lockstep._media import png_of
from lockstep._run_files import write_json


class Media:
    """A value that ``log`` writes into `media` of the folder."""

    caption: str | None = None

    def write(self, base: Path) -> Path:
        """Writes the file, whose name is `base` with an end, and returns its path."""
        raise NotImplementedError

    def logged(self) -> _media.Image | _media.Histogram | None:
        """Its form for ``lockstep.log``; None: it stays a file."""
        return None


class _File(Media):
    """A file that the program has made."""

    _ends: tuple[str, ...] = ()

    def __init__(self, data_or_path: Any, caption: str | None = None, **named: Any) -> None:
        """
        Raises:
            TypeError: it is no path: data are not turned into such a file here.
            FileNotFoundError: there is no such file.
        """
        self.caption = caption
        if not isinstance(data_or_path, (str, os.PathLike)):
            kind = type(self).__name__
            raise TypeError(
                f"wandb.{kind}: lockstep.wandb takes the path of a file, got "
                f"{type(data_or_path).__name__}; write the file first"
            )
        self._path = Path(data_or_path).absolute()
        if not self._path.is_file():
            raise FileNotFoundError(f"wandb.{type(self).__name__}: there is no file {self._path}")

    def write(self, base: Path) -> Path:
        goal = base.with_name(base.name + self._path.suffix)
        shutil.copyfile(self._path, goal)
        return goal


class Audio(_File):
    """The path of a file with sound."""


class Video(_File):
    """The path of a film."""


class Html(Media):
    """A page: its text, a file object, or the path of a file whose name ends with .html."""

    def __init__(self, data: Any, inject: bool = True, **named: Any) -> None:
        if hasattr(data, "read"):
            data = data.read()
        is_path = isinstance(data, os.PathLike) or str(data).endswith(".html")
        self._text = Path(data).read_text() if is_path else str(data)

    def write(self, base: Path) -> Path:
        goal = base.with_name(base.name + ".html")
        goal.write_text(self._text)
        return goal


class Image(Media):
    """A picture: a path; an image of PIL; a figure of matplotlib; an array (height, width) or
    (height, width, 1, 3 or 4); a tensor (1, 3 or 4, height, width), or several as one tensor with
    four dimensions.

    The range is taken from the values, as wandb does: 0 to 1, else -1 to 1, else 0 to 255.
    """

    def __init__(
        self, data_or_path: Any, mode: str | None = None, caption: str | None = None, **named: Any
    ) -> None:
        self.caption = caption
        self._extra = {name: value for name, value in named.items() if value is not None}
        self._path: Path | None = None
        self._image: Any = None
        self._png = b""
        if isinstance(data_or_path, (str, os.PathLike)):
            self._path = Path(data_or_path).absolute()
            if not self._path.is_file():
                raise FileNotFoundError(f"wandb.Image: there is no file {self._path}")
        elif hasattr(data_or_path, "savefig") or hasattr(data_or_path, "getbands"):
            self._image = data_or_path
        else:
            self._png = png_of(data_or_path)

    def write(self, base: Path) -> Path:
        end = self._path.suffix if self._path else ".png"
        goal = base.with_name(base.name + end)
        if self._path:
            shutil.copyfile(self._path, goal)
        elif hasattr(self._image, "savefig"):
            self._image.savefig(goal)
        elif self._image is not None:
            self._image.save(goal)
        else:
            goal.write_bytes(self._png)
        if self._extra or self.caption:
            words = {"caption": self.caption} | self._extra
            write_json(goal.with_name(goal.name + ".json"), words)
        return goal

    def logged(self) -> _media.Image | None:
        try:
            return _media.Image(self._path or self._image or self._png, self.caption)
        except (OSError, TypeError, ValueError):  # too large, or another form: it stays a file
            return None


class Histogram(Media):
    """Counts of values: `sequence` in `num_bins` bins, or (counts, edges) as numpy.histogram."""

    def __init__(
        self,
        sequence: Any = None,
        np_histogram: tuple[Sequence[float], Sequence[float]] | None = None,
        num_bins: int = 64,
    ) -> None:
        if (sequence is None) == (np_histogram is None):
            raise TypeError("wandb.Histogram: give either a sequence or np_histogram")
        if np_histogram is None:
            numpy = import_for("wandb.Histogram", "numpy")
            if hasattr(sequence, "detach"):
                sequence = sequence.detach().cpu().float().numpy()
            values = numpy.asarray(sequence, dtype=float).ravel()
            values = values[numpy.isfinite(values)]
            np_histogram = numpy.histogram(values, bins=num_bins)
        self.histogram = [float(each) for each in np_histogram[0]]
        self.bins = [float(each) for each in np_histogram[1]]
        if len(self.bins) != len(self.histogram) + 1:
            raise ValueError("wandb.Histogram: there is one edge more than there are counts")

    def write(self, base: Path) -> Path:
        goal = base.with_name(base.name + ".histogram.json")
        write_json(goal, {"values": self.histogram, "bins": self.bins})
        return goal

    def logged(self) -> _media.Histogram | None:
        return _media.Histogram(counts=self.histogram, edges=self.bins)


class Table(Media):
    """Rows with named columns; written as JSON. A cell may be an Image or another of these."""

    def __init__(
        self,
        columns: Iterable[str] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        **named: Any,
    ) -> None:
        if dataframe is not None:
            columns = [str(each) for each in dataframe.columns]
            data = dataframe.values.tolist()
        elif hasattr(data, "columns"):
            columns, data = [str(each) for each in data.columns], data.values.tolist()
        data = rows if data is None else data
        data = data.tolist() if hasattr(data, "tolist") else data
        self.columns = list(columns) if columns is not None else ["Input", "Output", "Expected"]
        self.data: list[list[Any]] = []
        for row in data or []:
            self.add_data(*row)

    def add_data(self, *row: Any) -> None:
        """
        Raises:
            ValueError: it has more or fewer values than there are columns.
        """
        if len(row) != len(self.columns):
            raise ValueError(
                f"wandb.Table: a row has {len(row)} values, and there are {len(self.columns)} "
                f"columns: {', '.join(map(str, self.columns))}"
            )
        self.data.append(list(row))

    def add_column(self, name: str, data: Iterable[Any]) -> None:
        values = list(data)
        if self.columns and len(values) != len(self.data):
            raise ValueError(
                f"wandb.Table: the column {name} has {len(values)} values, and there are "
                f"{len(self.data)} rows"
            )
        self.data = self.data if self.columns else [[] for _ in values]
        self.columns.append(name)
        for row, value in zip(self.data, values, strict=True):
            row.append(value)

    def get_column(self, name: str) -> list[Any]:
        return [row[self.columns.index(name)] for row in self.data]

    def get_dataframe(self) -> Any:
        return import_for("wandb.Table.get_dataframe", "pandas").DataFrame(
            self.data, columns=self.columns
        )

    def write(self, base: Path) -> Path:
        goal = base.with_name(base.name + ".table.json")
        shown = [
            [self._cell(cell, base, f"{number}-{column}") for column, cell in enumerate(row)]
            for number, row in enumerate(self.data)
        ]
        write_json(goal, {"columns": self.columns, "data": shown})
        return goal

    def _cell(self, cell: Any, base: Path, place: str) -> Any:
        if not isinstance(cell, Media):
            return cell
        return {"file": cell.write(base.with_name(f"{base.name}-{place}")).name}
