"""Horovod 0.28.1 over Gloo, built from its source package into a folder of the bench.

It is of 2023 and asks for C++14, with which torch's headers no longer compile. So its build files
are edited here, between download and build; its sources are compiled as they are.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from _contest.packages import install

HERE = Path(__file__).resolve().parent
SOURCE = HERE.with_name("horovod-source.txt")
REQUIREMENTS = HERE.with_name("horovod-requirements.txt")

DOWNLOAD_SECONDS, BUILD_SECONDS = 600.0, 3600.0

# file, text, text in its place
EDITS = (
    ("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"),
    ("horovod/torch/CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"),
    ("third_party/gloo/CMakeLists.txt", "-std=c++11", "-std=c++17"),
)
SETTINGS = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    # Gloo asks for a CMake from before 3.5, which CMake 4 refuses otherwise.
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
}


def horovod(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The folder with its packages; None, with a message, if it cannot be built here."""
    packages = install(REQUIREMENTS, folder, say, options=("--no-deps",))
    if packages is None:
        return None
    stamp = folder / ".horovod-made-from"
    made_from = _made_from()
    if stamp.exists() and stamp.read_text() == made_from:
        return folder
    try:
        _build(folder, say)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        say(f"Horovod does not take part: {error}\n{said[-2000:]}")
        return None
    stamp.write_text(made_from)
    return folder


def _made_from() -> str:
    files = [SOURCE, REQUIREMENTS, Path(__file__)]
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    return f"{digest} torch {torch.__version__} Python {sys.version}"


def _build(folder: Path, say: Callable[[str], None]) -> None:
    work = folder.with_name("horovod-build")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    say("downloading the source of Horovod")
    # Its setup runs for the download already, and imports what REQUIREMENTS names.
    python_path = os.environ | {"PYTHONPATH": str(folder)}
    options = ["--no-deps", "--no-build-isolation"]
    download = ["download", "--no-binary", ":all:", "--require-hashes", "--dest", str(work)]
    _pip([*download, *options, "--requirement", str(SOURCE)], python_path, DOWNLOAD_SECONDS)
    archive = next(work.glob("*.tar.gz"))
    subprocess.run(["tar", "xf", archive, "-C", work], check=True, capture_output=True, text=True)
    source = next(each for each in work.iterdir() if each.is_dir())
    for file, old, new in EDITS:
        _edit(source / file, old, new)
    say("compiling Horovod, which takes ten minutes or more")
    jobs = os.environ.get("LOCKSTEP_JOBS") or str(os.cpu_count() or 1)
    environment = python_path | SETTINGS | {"MAKEFLAGS": f"-j{jobs}"}
    target = ["install", "--target", str(folder), "--upgrade"]
    _pip([*target, *options, str(source)], environment, BUILD_SECONDS)
    shutil.rmtree(work)


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if old not in text:
        raise ValueError(f"{file} has no {old!r}: correct the edits in {Path(__file__).name}")
    file.write_text(text.replace(old, new))


def _pip(words: list[str], environment: dict[str, str], seconds: float) -> None:
    command = ["nice", "-n", "19", sys.executable, "-m", "pip", *words]
    subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=seconds
    )
