"""cmake/libtorch.cmake finds libtorch in packages that only look like torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(finds_torch NONE)
add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES /usr/include)
include({ROOT}/cmake/libtorch.cmake)
get_target_property(libraries dep_torch INTERFACE_LINK_LIBRARIES)
message(NOTICE "torch ${{torch_version}}: ${{libraries}}")
"""
ASKS_FOR_CUDA = "message(FATAL_ERROR [[CUDA's toolkit was not found]])"


class Site:
    """A folder of Python packages with a torch, and a project that looks for libtorch there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packages = folder / "packages"
        (folder / "CMakeLists.txt").write_text(PROJECT)

    def install(self, version: str) -> None:
        shutil.rmtree(self._packages, ignore_errors=True)
        self._write("torch/__init__.py", "")
        self._write("torch/version.py", f"__version__ = '{version}'")
        self._write("torch/share/cmake/Torch/TorchConfig.cmake", ASKS_FOR_CUDA)
        self._write(f"torch-{version}.dist-info/METADATA", f"Name: torch\nVersion: {version}\n")

    def _write(self, name: str, content: str) -> None:
        path = self._packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def configure(self, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        folders = ("-S", str(self._folder), "-B", str(self._folder / "build"))
        return self._run("cmake", "-G", "Ninja", *folders, f"-DLOCKSTEP_PYTHON={python}")

    def build(self) -> subprocess.CompletedProcess[str]:
        return self._run("cmake", "--build", str(self._folder / "build"))

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(self._packages)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_cuda_build_needs_no_toolkit_and_gives_the_libraries_of_every_build(site: Site) -> None:
    site.install("2.12.1+cu130")
    found = site.configure()
    assert found.returncode == 0, found.stdout
    [line] = [line for line in found.stdout.splitlines() if line.startswith("torch ")]
    version, libraries = line.split(": ")
    assert version == "torch 2.12.1"
    names = [Path(library).name for library in libraries.split(";")]
    assert names == ["stdc++", "libtorch.so", "libtorch_cpu.so", "libc10.so"]


def test_another_torch_in_the_same_place_is_found_by_the_next_build(site: Site) -> None:
    site.install("2.12.1+cu130")
    assert "torch 2.12.1:" in site.configure().stdout
    site.install("2.13.0+cpu")
    assert "torch 2.13.0:" in site.build().stdout


def test_a_torch_that_is_too_old_is_refused_with_the_oldest_that_works(site: Site) -> None:
    site.install("2.10.0")
    refused = site.configure()
    assert refused.returncode != 0
    assert "torch 2.10.0" in refused.stdout
    assert "2.11 or newer" in refused.stdout


def test_a_python_without_torch_is_refused_with_the_command_that_installs_it(site: Site) -> None:
    refused = site.configure(python="/bin/false")
    assert refused.returncode != 0
    assert "no torch in /bin/false: run ./dev build" in refused.stdout
