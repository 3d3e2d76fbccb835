"""wandb.Image, Table, Histogram and others: Lockstep writes them as files."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lockstep._client.files import import_for
from lockstep._run_files import write_json


class Media:
    """A value that ``log`` writes into `media` of the folder."""

    caption: str | None = None

    def write(self, base: Path) -> Path:
        """Writes the file, whose name is `base` with an end, and returns its path."""
        raise NotImplementedError


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
            self._png = _png_of(data_or_path)

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


def _png_of(data: Any) -> bytes:
    """Its pixels now: the array may change before it is written."""
    numpy = import_for("wandb.Image of an array", "numpy")
    if hasattr(data, "detach"):  # a tensor has its channels first
        data = data.detach().cpu()
        if data.is_floating_point():
            data = data.float()  # numpy has no bfloat16
        if data.ndim == 4:
            data = _side_by_side(data)
        if data.ndim == 3:
            data = data.permute(1, 2, 0)
        data = data.numpy()
    pixels = numpy.asarray(data)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)):
        raise TypeError(
            f"wandb.Image: an array is (height, width) or (height, width, 1, 3 or 4), got the "
            f"shape {list(pixels.shape)}"
        )
    pixels = _in_bytes(pixels)
    colour = 0 if pixels.ndim == 2 else {3: 2, 4: 6}[pixels.shape[2]]
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _png_chunk(b"IHDR", header),
            _png_chunk(b"IDAT", zlib.compress(rows, 6)),
            _png_chunk(b"IEND", b""),
        ]
    )


def _in_bytes(pixels: Any) -> Any:
    """0 to 255, by wandb's rule: the least and the greatest value tell the range."""
    numpy = import_for("wandb.Image of an array", "numpy")
    pixels = numpy.nan_to_num(pixels.astype(float))
    if pixels.size and pixels.max() <= 1:
        if pixels.min() >= 0:
            pixels = pixels * 255
        elif pixels.min() >= -1:
            pixels = (pixels + 1) / 2 * 255
    return numpy.clip(numpy.round(pixels), 0, 255).astype(numpy.uint8)


def _side_by_side(pictures: Any) -> Any:
    """One tensor (channels, height, width) of several, with at most 8 in a row."""
    count, channels, height, width = pictures.shape
    columns = max(1, min(8, count))
    rows = -(-count // columns)
    grid = pictures.new_zeros((channels, rows * height, columns * width))
    for index in range(count):
        top, left = index // columns * height, index % columns * width
        grid[:, top : top + height, left : left + width] = pictures[index]
    return grid


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    """Length, kind, data and checksum, as the PNG specification has them."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


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
