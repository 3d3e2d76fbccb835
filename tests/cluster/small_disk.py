"""A disk of a few MiB that only some processes see: a tmpfs in a separate mount namespace."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


class SmallDisk:
    """Mounted at `folder` for commands with the prefix `within`."""

    def __init__(self, folder: Path, holder: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.within = ["nsenter", f"--target={holder.pid}", "--mount"]
        self.from_outside = Path(f"/proc/{holder.pid}/root{folder}")
        self._filler = self.from_outside / "filler"

    def fill(self) -> None:
        """Fills the disk to the last byte."""
        with self._filler.open("ab", buffering=0) as file:
            for piece in (MIB, 4096, 1):
                write_until_full(file.fileno(), bytes(piece))

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


def write_until_full(file: int, piece: bytes) -> None:
    while True:
        try:
            os.write(file, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[SmallDisk]:
    """Skips the test if this user may not create one."""
    folder.mkdir(parents=True)
    script = f'mount -t tmpfs -o size={mib}M small "$0" && echo mounted && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", script, str(folder)],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stderr is not None
    try:
        if holder.stdout.readline() != "mounted\n":
            pytest.skip(f"needs to mount a tmpfs of its own: {holder.stderr.read().strip()}")
        yield SmallDisk(folder, holder)
    finally:
        holder.communicate(timeout=30)  # the end of its input ends it, and with it the disk
