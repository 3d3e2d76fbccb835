"""The folder `wandb-files` of a run, for what programs log and Lockstep does not keep yet."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lockstep._agent import warn
from lockstep._client.files import umask
from lockstep._client.parameters import CONFIG, FOLDER

_warned: set[str] = set()
_begun: set[Path] = set()  # files with parameters that this process has written


def files_folder(own: str | os.PathLike[str] | None = None) -> Path:
    """The one in the run's checkpoint folder; without a run, in `own` or the working folder. A rank
    above 0 has a folder in it, so that ranks do not replace each other's files."""
    checkpoints = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
    folder = Path(checkpoints or own or ".").absolute() / FOLDER
    rank = os.environ.get("RANK", "0")
    return folder if rank == "0" else folder / f"rank-{rank}"


def warn_once(call: str, text: str) -> None:
    if call not in _warned:
        _warned.add(call)
        warn(f"{call}: {text}")


@contextmanager
def training_goes_on(call: str) -> Iterator[None]:
    """A disk that is full or over its quota costs files and not the training."""
    try:
        yield
    except OSError as error:
        warn_once(f"{call}: files", f"{error}; the training goes on without such files")


def is_first_start() -> bool:
    """This rank starts for the first time: in attempt 1, and not in the place of one that ended."""
    replaces = os.environ.get("LOCKSTEP_REPLACES") == "1"
    return os.environ.get("LOCKSTEP_EPOCH", "1") == "1" and not replaces


def keep_parameters(values: Mapping[str, Any], folder: Path | None = None) -> None:
    """Adds them to `config.json`, which ``lockstep.run(ID).params`` reads. At the first start of a
    rank they replace it, because an earlier run may have used the same folder."""
    path = (folder or files_folder()) / CONFIG
    is_of_another = is_first_start() and path not in _begun
    _begun.add(path)
    with training_goes_on(CONFIG):
        write_json(path, ({} if is_of_another else read_json(path)) | dict(values))


def write_json(path: Path, value: Any) -> None:
    """Replaces the file at once. A value that JSON lacks becomes a string."""
    text = to_json(value) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    made, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(text)
        part.chmod(0o666 & ~umask())  # mkstemp lets no other user read it
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any]:
    """Empty if there is no such file, or it is damaged."""
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def append_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(to_json(value) + "\n")


def to_json(value: Any) -> str:
    return json.dumps(_plain(value), default=_shown)


def _plain(value: Any) -> Any:
    """Keys are strings, as JSON needs them."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _shown(value: Any) -> Any:
    if isinstance(value, type):  # numpy.float32 has a tolist, and it needs an instance
        return str(value)
    for convert in ("tolist", "as_dict"):  # of arrays and tensors; of a configuration
        if hasattr(value, convert):
            return _plain(getattr(value, convert)())
    return str(value)


def inside(folder: Path, name: str) -> Path:
    """
    Raises:
        ValueError: the name leads out of the folder.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or path == folder.resolve():
        raise ValueError(f"'{name}' is no name of a file within a folder")
    return path
