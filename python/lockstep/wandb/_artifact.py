"""wandb.Artifact: versioned folders in `artifacts` of the folder of the run."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lockstep._client.files import umask
from lockstep._run_files import files_folder, inside, read_json, write_json
from lockstep.wandb._media import Media

_RECORD = "artifact.json"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class _Place:
    """Where artifacts of this process gather their files; ``init`` sets it."""

    own: str | os.PathLike[str] | None = None  # init(dir=...)
    is_disabled = False


def set_place(own: str | os.PathLike[str] | None, is_disabled: bool) -> None:
    _Place.own, _Place.is_disabled = own, is_disabled


class Artifact:
    """Files under a name and a version. They are copied when they are added."""

    def __init__(
        self,
        name: str,
        type: str,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise ValueError(
                f"wandb.Artifact: a name has letters, digits, '.', '-' and '_', got {name!r}"
            )
        self.name, self.type, self.description = name, type, description
        self.metadata = dict(metadata or {})
        self.aliases: list[str] = []
        self.version = ""  # such as "v0", once it is logged
        self._references: dict[str, str] = {}
        self._folder: Path | None = None

    def add_file(
        self,
        local_path: str | os.PathLike[str],
        name: str | None = None,
        is_tmp: bool | None = False,
        **named: Any,
    ) -> None:
        if _Place.is_disabled:
            return
        path = Path(local_path)
        if path.is_dir():  # Lightning's checkpoints may be folders
            self.add_dir(path, name or path.name)
            return
        goal = self._place(name or path.name)
        shutil.copyfile(path, goal)

    def add_dir(
        self, local_path: str | os.PathLike[str], name: str | None = None, **named: Any
    ) -> None:
        folder = Path(local_path)
        if not folder.is_dir():
            raise NotADirectoryError(f"wandb.Artifact.add_dir: {folder} is no folder")
        if _Place.is_disabled:
            return
        goal = inside(self._files(), name) if name else self._files()
        shutil.copytree(folder, goal, dirs_exist_ok=True)

    @contextmanager
    def new_file(
        self, name: str, mode: str = "w", encoding: str | None = None
    ) -> Iterator[IO[Any]]:
        with self._place(name).open(mode, encoding=encoding) as file:
            yield file

    def add(self, obj: Any, name: str, overwrite: bool = False) -> None:
        """A Table, an Image or another of these."""
        if not isinstance(obj, Media):
            raise TypeError(f"wandb.Artifact.add: expected a Table or an Image, got {obj!r}")
        if not _Place.is_disabled:
            obj.write(self._place(name))

    def add_reference(self, uri: str, name: str | None = None, **named: Any) -> None:
        """Only the address is kept."""
        self._references[name or str(uri).rpartition("/")[2]] = str(uri)

    def wait(self, timeout: float | None = None) -> Artifact:
        return self

    def download(self, root: str | os.PathLike[str] | None = None, **named: Any) -> str:
        """The folder with its files; a copy of them in `root` if that is given."""
        if root is None:
            return str(self._files())
        shutil.copytree(self._files(), root, dirs_exist_ok=True)
        return str(root)

    def file(self, root: str | os.PathLike[str] | None = None) -> str:
        """The path of its only file."""
        found = [each for each in Path(self.download(root)).rglob("*") if each.is_file()]
        if len(found) != 1:
            raise ValueError(f"wandb.Artifact.file: {self.name} has {len(found)} files")
        return str(found[0])

    @property
    def source_name(self) -> str:
        return f"{self.name}:{self.version}" if self.version else self.name

    def keep(self, artifacts: Path, aliases: Sequence[str]) -> Path:
        """Gives it the next version in this folder."""
        files = self._files()
        folder = artifacts / self.name
        folder.mkdir(parents=True, exist_ok=True)
        last = [int(version[1:]) for version in _versions(folder)[-1:]]
        self.version = f"v{last[0] + 1 if last else 0}"  # an earlier version may be removed
        self.aliases = [*dict.fromkeys([*aliases, "latest"])]
        goal = folder / self.version
        write_json(folder / f"{self.version}.{_RECORD}", self._record())
        shutil.move(files, goal)  # it may be of another file system, if init(dir=...) came later
        self._folder = goal
        return goal

    def _record(self) -> dict[str, Any]:
        names = ("name", "type", "description", "metadata", "version", "aliases")
        return {name: getattr(self, name) for name in names} | {"references": self._references}

    def _files(self) -> Path:
        if self._folder is None:
            parent: Path | None = None  # of the system, if nothing is kept
            if not _Place.is_disabled:
                parent = files_folder(_Place.own) / "artifacts"
                parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
            self._folder.chmod(0o777 & ~umask())
        return self._folder

    def _place(self, name: str) -> Path:
        if self.version:
            raise ValueError(f"wandb.Artifact: {self.source_name} is logged and cannot change")
        path = inside(self._files(), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def find_artifact(artifacts: Path, wanted: str) -> Artifact:
    """The artifact "NAME", "NAME:latest", "NAME:v2" or "NAME:ALIAS".

    Raises:
        ValueError: it is not in this folder.
    """
    name, _, alias = wanted.rpartition("/")[2].partition(":")
    alias = alias or "latest"
    folder = artifacts / name
    for version in reversed(_versions(folder) if _NAME.fullmatch(name) else []):
        record = read_json(folder / f"{version}.{_RECORD}")
        if alias in (version, *record.get("aliases", [])):
            return _read(folder / version, record)
    raise ValueError(
        f"wandb.use_artifact: there is no '{wanted}' in {artifacts}; lockstep.wandb keeps "
        "artifacts of this run only, so give the path of the files to the program instead"
    )


def _read(folder: Path, record: dict[str, Any]) -> Artifact:
    found = Artifact(record["name"], record["type"], record["description"], record["metadata"])
    found.version, found.aliases = record["version"], record["aliases"]
    found._references, found._folder = record["references"], folder
    return found


def _versions(folder: Path) -> list[str]:
    found = [each.name for each in folder.glob("v*") if each.is_dir() and each.name[1:].isdigit()]
    return sorted(found, key=lambda name: int(name[1:]))
