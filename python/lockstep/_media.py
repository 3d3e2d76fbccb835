"""lockstep.Image and lockstep.Histogram: values of ``log`` that are no numbers.

A rank of Lockstep writes each as a file into LOCKSTEP_MEDIA_DIR, from where its agent sends it
(docs/design/imports.md). Imports neither torch nor PIL.
"""

from __future__ import annotations

import base64
import io
import json
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockstep._agent import warn
from lockstep._client.files import import_for

_IMAGE_MAX = 2 << 20  # bytes of the file
_BINS_MAX = 10_000
_WAITING_MAX = 10_000  # files that wait for the agent
_LOOK_EVERY = 100  # files between two counts of those that wait
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")


class Image:
    """A picture: the path or the bytes of a PNG, JPEG, GIF or WebP file; an image of PIL; a figure
    of matplotlib; an array (height, width) or (height, width, 1, 3 or 4); a tensor (1, 3 or 4,
    height, width).

    The range is taken from the values: 0 to 1, else -1 to 1, else 0 to 255. The pixels are those of
    now: the array may change afterwards.
    """

    def __init__(self, data: Any, caption: str | None = None) -> None:
        """
        Raises:
            TypeError, ValueError: it is none of these, or its file has more than 2 MiB.
            FileNotFoundError: there is no such file.
        """
        self.caption = caption
        self.data = file_of_image(data)
        if len(self.data) > _IMAGE_MAX:
            raise ValueError(
                f"lockstep.Image: the file has {len(self.data)} bytes, of which {_IMAGE_MAX} are "
                "allowed; log a smaller picture"
            )
        if not self.data.startswith(_SIGNATURES):
            raise TypeError("lockstep.Image: it is no PNG, JPEG, GIF or WebP file")

    def request(self) -> dict[str, Any]:
        shown = {"kind": "image", "data": base64.b64encode(self.data).decode()}
        return shown | ({"caption": self.caption[:500]} if self.caption else {})


class Histogram:
    """Counts of values: of an array, a tensor or a sequence in ``bins`` bins, or the counts and
    edges that numpy.histogram returns. Values that are not finite are left out."""

    def __init__(
        self,
        values: Any = None,
        bins: int = 64,
        counts: Sequence[float] | None = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        """
        Raises:
            TypeError: neither values nor counts with edges are given, or both.
            ValueError: there is not one edge more than there are counts, or there are too many.
        """
        if (values is None) == (counts is None) or (counts is None) != (edges is None):
            raise TypeError("lockstep.Histogram: give either values, or counts and edges")
        if values is not None:
            counts, edges = _counted(values, bins)
        assert counts is not None and edges is not None
        self.counts = [float(each) for each in counts]
        self.edges = [float(each) for each in edges]
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError("lockstep.Histogram: there is one edge more than there are counts")
        if len(self.counts) > _BINS_MAX:
            raise ValueError(f"lockstep.Histogram: at most {_BINS_MAX} bins are allowed")

    def request(self) -> dict[str, Any]:
        return {"kind": "histogram", "edges": self.edges, "counts": self.counts}


def as_media(value: Any) -> list[Image | Histogram]:
    """The images and histograms that a value of ``log`` stands for; none: it is a number."""
    if isinstance(value, (Image, Histogram)):
        return [value]
    if isinstance(value, (list, tuple)) and value and any(as_media(each) for each in value):
        return [media for each in value for media in as_media(each)]
    is_picture = hasattr(value, "getbands") or hasattr(value, "savefig")
    is_array = type(value).__module__.partition(".")[0] == "numpy" and getattr(value, "ndim", 0) > 1
    if is_picture or (is_array and value.size > 1):
        return [Image(value)]
    return []


class MediaFolder:
    """Where images and histograms wait as files, each a request of the API as JSON."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._written = 0
        self._is_full = False

    def add(
        self, name: str, media: Iterable[Image | Histogram], step: int, time_us: int, rank: int
    ) -> None:
        """Raises nothing: a disk that fails is one warning, and training goes on."""
        for index, each in enumerate(media):
            place = {"name": name, "step": step, "time": _time(time_us), "rank": rank}
            request = each.request() | place | ({"index": index} if index else {})
            with self._lock:
                self._write(request, time_us, rank)

    def _write(self, request: Mapping[str, Any], time_us: int, rank: int) -> None:
        if self._written % _LOOK_EVERY == 0:
            self._look()
        self._written += 1
        if self._is_full:
            return
        # Its name sorts by time.
        name = f"{time_us:020}-{rank}-{os.getpid()}-{self._written}.json"
        part = self._folder / f".{name}"
        try:
            part.write_text(json.dumps(request, separators=(",", ":")))
            part.rename(self._folder / name)
        except OSError as error:
            self._is_full = True
            warn(f"images and histograms are left out: {error}")

    def _look(self) -> None:
        try:
            waiting = len(os.listdir(self._folder))
        except OSError:
            self._folder.mkdir(parents=True, exist_ok=True)
            waiting = 0
        if waiting >= _WAITING_MAX and not self._is_full:
            warn(f"images and histograms are left out: {waiting} wait for the daemon")
        self._is_full = waiting >= _WAITING_MAX


def _time(time_us: int) -> str:
    """As the API writes it."""
    from datetime import UTC, datetime, timedelta

    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _counted(values: Any, bins: int) -> tuple[Sequence[float], Sequence[float]]:
    numpy = import_for("lockstep.Histogram", "numpy")
    if hasattr(values, "detach"):
        values = values.detach().cpu().float().numpy()
    numbers = numpy.asarray(values, dtype=float).ravel()
    counts, edges = numpy.histogram(numbers[numpy.isfinite(numbers)], bins=bins)
    return counts.tolist(), edges.tolist()


def file_of_image(data: Any) -> bytes:
    """The file of what ``Image`` takes."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, (str, os.PathLike)):
        return Path(data).read_bytes()
    if hasattr(data, "savefig") or hasattr(data, "getbands"):
        buffer = io.BytesIO()
        if hasattr(data, "savefig"):
            data.savefig(buffer, format="png")
        else:
            data.save(buffer, format="PNG")
        return buffer.getvalue()
    return png_of(data)


def png_of(data: Any) -> bytes:
    """Its pixels now: the array may change before it is written."""
    numpy = import_for("an image of an array", "numpy")
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
            f"Image: an array is (height, width) or (height, width, 1, 3 or 4), got the shape "
            f"{list(pixels.shape)}"
        )
    pixels = in_bytes(pixels)
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


def in_bytes(pixels: Any) -> Any:
    """0 to 255, by wandb's rule: the least and the greatest value tell the range."""
    numpy = import_for("an image of an array", "numpy")
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
