"""What the product's binaries need from the machine that they run on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD

GLIBC_MAX = (2, 34)  # Debian 12 has 2.36, Ubuntu 22.04 has 2.35, RHEL 9 has 2.34


def binaries() -> list[Path]:
    extensions = (BUILD / "python/lockstep").glob("_lockstep*.so")
    libraries = (BUILD / "lib").glob("liblockstep-*.so")
    return [BUILD / "bin/lockstep", *sorted(extensions), *sorted(libraries)]


@pytest.mark.parametrize("binary", binaries(), ids=lambda path: path.name)
def test_no_binary_needs_a_newer_glibc_than_the_oldest_supported(binary: Path) -> None:
    table = subprocess.run(
        ["objdump", "--dynamic-syms", binary], capture_output=True, text=True, check=True
    ).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", table)}
    assert versions
    assert max(versions) <= GLIBC_MAX
