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
    extensions = (BUILD / "python/lockstep").glob("_*.so")
    libraries = (BUILD / "lib").glob("liblockstep-*.so")
    plugin = BUILD / "lib/libnccl-net-lockstep.so"
    return [BUILD / "bin/lockstep", plugin, *sorted(extensions), *sorted(libraries)]


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


def needed_by(binary: Path) -> list[str]:
    """The libraries that it names, in the order in which names are looked up."""
    headers = subprocess.run(
        ["objdump", "--private-headers", binary], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"NEEDED +(\S+)", headers)


def needing_torch() -> list[Path]:
    return [binary for binary in binaries() if "libtorch.so" in needed_by(binary)]


def test_the_extension_needs_no_library_that_only_some_builds_of_torch_have() -> None:
    [extension] = (BUILD / "python/lockstep").glob("_lockstep*.so")
    of_torch = {name for name in needed_by(extension) if re.match("lib(torch|c10|cu|nccl)", name)}
    assert of_torch == {"libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so"}


def test_the_lines_of_reports_need_neither_torch_nor_one_version_of_python() -> None:
    extension = BUILD / "python/lockstep/_report_lines.abi3.so"
    needed = {name.partition(".so")[0] for name in needed_by(extension)}
    assert needed <= {"libstdc++", "libm", "libgcc_s", "libc"}


def test_the_standard_librarys_functions_are_not_those_that_torch_has_copied() -> None:
    assert len(needing_torch()) == 2
    for binary in needing_torch():
        needed = needed_by(binary)
        assert needed.index("libstdc++.so.6") < needed.index("libtorch.so"), binary.name


def test_nccls_plugin_exports_the_tables_of_its_versions_and_nothing_else() -> None:
    table = subprocess.run(
        ["nm", "--dynamic", "--defined-only", BUILD / "lib/libnccl-net-lockstep.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    networks = {f"ncclNetPlugin_v{version}" for version in range(7, 13)}
    assert exported == networks | {"ncclProfiler_v5", "ncclProfiler_v6"}
