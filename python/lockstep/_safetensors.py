"""Reads parts of tensors from safetensors files (https://github.com/huggingface/safetensors)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lockstep._compiled import compiled

PREFIX = 8  # bytes with the length of the header
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class TensorLocation:
    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int  # of the first element in the file


class SafetensorsFiles:
    """The tensors of one file, of several, or of a folder of them."""

    def __init__(self, where: str | Path | Sequence[str | Path]) -> None:
        self._locations: dict[str, TensorLocation] = {}
        for path in _files(where):
            for name, location in _tensors_of(path):
                if name in self._locations:
                    raise ValueError(f"{name} is in {self._locations[name].path} and in {path}")
                self._locations[name] = location

    def __contains__(self, name: str) -> bool:
        return name in self._locations

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def path(self, name: str) -> Path:
        return self._locations[name].path

    def shape(self, name: str) -> tuple[int, ...]:
        return self._locations[name].shape

    def read(self, name: str, begin: int, end: int) -> Tensor:
        """Elements begin to end of the flattened tensor; no others are read."""
        location = self._locations[name]
        values = torch.empty(end - begin, dtype=location.dtype)
        if end == begin:
            return values
        with location.path.open("rb") as file:
            file.seek(location.offset + begin * location.dtype.itemsize)
            into = memoryview(values.view(torch.uint8).numpy())
            if file.readinto(into) != len(into):
                raise ValueError(f"{location.path} ends within {name}: it is not whole")
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


def _tensors_of(path: Path) -> Iterator[tuple[str, TensorLocation]]:
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
        yield name, TensorLocation(path, dtype, tuple(shape), first + begin)
