"""The files that runs log: docs/design/artifacts.md."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lockstep._client.connection import get, post
from lockstep._client.daemon import Daemon, DaemonError

_PART = 2 << 20  # bytes of one call
_LISTED = 10_000  # of one folder


class Artifact(NamedTuple):
    """A file that a run has logged, or a folder of them.

    Attributes:
        path: below the run, such as "plots/loss.png".
        size: bytes; 0 for a folder.
        sha256: of the content, hex; "" for a folder.
    """

    path: str
    is_folder: bool
    size: int
    sha256: str


def files_below(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Each file of a folder, or the file itself, with the path of its artifact."""
    if path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.is_file():
                yield each, f"{name}/{each.relative_to(path).as_posix()}"
    else:
        yield path, name


def listed(daemon: Daemon, run: str, path: str) -> list[Artifact]:
    query = {"path": path or None, "limit": _LISTED}
    answer = get(daemon, ["runs", *run.split("/"), "artifacts"], query)
    return [
        Artifact(each["path"], each["is_folder"], each["size"], each["sha256"])
        for each in answer["artifacts"]
    ]


def download(daemon: Daemon, run: str, path: str, to: Path) -> Path:
    """The file, or the folder with all below it, under its name in `to`."""
    above = len(path) - len(PurePosixPath(path).name)
    _download_below(daemon, run, path, to, above)
    return to / path[above:]


def _download_below(daemon: Daemon, run: str, folder: str, to: Path, above: int) -> None:
    for each in listed(daemon, run, folder):
        if ".." in PurePosixPath(each.path).parts or not each.path.startswith(folder):
            raise DaemonError("corrupt", f"the daemon names an artifact {each.path!r} in {folder}")
        if each.is_folder:
            _download_below(daemon, run, each.path, to, above)
        else:
            _download_file(daemon, run, each, to / each.path[above:])


def _download_file(daemon: Daemon, run: str, artifact: Artifact, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    unfinished = to.with_name(to.name + ".unfinished")
    digest = hashlib.sha256()
    with unfinished.open("wb") as file:
        while file.tell() < artifact.size:
            query = {"path": artifact.path, "offset": file.tell()}
            part = get(daemon, ["runs", *run.split("/"), "artifacts", "part"], query)
            content = base64.b64decode(part["bytes"])
            if not content:
                break
            digest.update(content)
            file.write(content)
    if digest.hexdigest() != artifact.sha256:
        unfinished.unlink()
        raise DaemonError("unavailable", f"{artifact.path} changed while it was read: try again")
    os.replace(unfinished, to)


def upload(daemon: Daemon, run: str, path: Path, name: str) -> None:
    """Sends a file, or each file of a folder."""
    for file, artifact in files_below(path, name):
        _upload_file(daemon, run, file, artifact)


def _upload_file(daemon: Daemon, run: str, path: Path, name: str) -> None:
    body = {"upload": secrets.token_hex(16), "path": name}
    with path.open("rb") as file:
        while True:
            offset = file.tell()
            content = file.read(_PART)
            part = {
                "offset": offset,
                "bytes": base64.b64encode(content).decode(),
                "last": len(content) < _PART,
            }
            stored = post(daemon, ["runs", *run.split("/"), "artifacts", "part"], body | part)
            if stored.get("artifact"):
                return
            if stored["next"] != file.tell():
                raise DaemonError("unavailable", f"{name}: the daemon has another part: try again")
