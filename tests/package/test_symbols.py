"""The product's binaries run on every supported machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD

# RHEL 9 has these; Debian 12 and Ubuntu 22.04 have newer ones.
OLDEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}


def binaries() -> list[Path]:
    extensions = (BUILD / "python/lockstep").glob("_lockstep*.so")
    libraries = (BUILD / "lib").glob("liblockstep-*.so")
    return [BUILD / "bin/lockstep", *sorted(extensions), *sorted(libraries)]


@pytest.mark.parametrize("binary", binaries(), ids=lambda path: path.name)
def test_no_binary_needs_newer_libraries_than_the_oldest_supported_system(binary: Path) -> None:
    table = subprocess.run(
        ["objdump", "--dynamic-syms", binary], capture_output=True, text=True, check=True
    ).stdout
    for library, oldest in OLDEST.items():
        found = re.findall(rf"\b{library}_([0-9.]+)", table)
        versions = [tuple(map(int, version.split("."))) for version in found]
        assert versions
        assert max(versions) <= oldest
