"""Reads parts of tensors out of safetensors files (https://github.com/huggingface/safetensors)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lockstep.backend import compiled

PREFIX = 8  # bytes that say how long the header is
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Place:
    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int  # of the first element in the file


class SafetensorsFiles:
    """The tensors of one file, of several, or of a folder of them."""

    def __init__(self, where: str | Path | Sequence[str | Path]) -> None:
        self._places: dict[str, Place] = {}
        for path in _files(where):
            for name, place in _tensors_of(path):
                if name in self._places:
                    raise ValueError(f"{name} is in {self._places[name].path} and in {path}")
                self._places[name] = place

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def path(self, name: str) -> Path:
        return self._places[name].path

    def shape(self, name: str) -> tuple[int, ...]:
        return self._places[name].shape

    def read(self, name: str, begin: int, end: int) -> Tensor:
        """Elements begin to end of the flattened tensor; no others are read."""
        place = self._places[name]
        values = torch.empty(end - begin, dtype=place.dtype)
        if end == begin:
            return values
        with place.path.open("rb") as file:
            file.seek(place.offset + begin * place.dtype.itemsize)
            into = memoryview(values.view(torch.uint8).numpy())
            if file.readinto(into) != len(into):
                raise ValueError(f"{place.path} ends within {name}: it is not whole")
        return values


def _files(where: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(where, str | Path):
        return [Path(each) for each in where]
    path = Path(where)
    if not path.is_dir():
        return [path]
    index = path / INDEX
    if index.exists():
        named = json.loads(index.read_text())["weight_map"].values()
        return [path / name for name in sorted(set(named))]
    found = sorted(path.glob("*.safetensors"))
    if not found:
        raise ValueError(f"{path} has no *.safetensors")
    return found


def _tensors_of(path: Path) -> Iterator[tuple[str, Place]]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(PREFIX), "little")
        if size < PREFIX or length > size - PREFIX:
            raise ValueError(f"{path} is no whole safetensors file: its header does not end")
        header = file.read(length)
    first = PREFIX + length
    try:
        tensors = compiled().safetensors_header(header, size - first)
    except Exception as error:
        raise ValueError(f"{path}: {error}") from None
    for name, type_name, shape, begin, _ in tensors:
        dtype = torch.bool if type_name == "boolean" else getattr(torch, type_name)
        yield name, Place(path, dtype, tuple(shape), first + begin)
