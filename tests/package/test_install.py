"""`cmake --install`, and programs outside of the repository against what it installs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from tests.conftest import BUILD, ROOT

TORCH = torch.utils.cmake_prefix_path
TORCH_HEADERS = Path(torch.__file__).parent / "include"
HEADERS = sorted(path.name for path in (ROOT / "include/lockstep").glob("*.h"))
TEN_LINES = """
#include <lockstep/comm.h>
#include <cstdio>
#include <vector>
int main() {
  auto world = lockstep::join().value();
  std::vector<double> values(1000, world.rank() + 1.0);
  world.all_reduce(values, lockstep::ReduceOp::sum).value();
  if (world.rank() == 0) std::printf("%g\\n", values[0]);
}
"""
RUNS = """
#include <lockstep/client.h>
#include <cstdio>
int main() {
  auto client = lockstep::Client::connect();
  if (!client) std::puts(std::string(lockstep::text(client.error().code)).c_str());
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside CXX)
find_package(Lockstep 0.1 REQUIRED)
add_executable(ten ten.cc)
target_link_libraries(ten Lockstep::comm)
add_executable(runs runs.cc)
target_link_libraries(runs Lockstep::client)
"""
ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    for component in ("libraries", "training"):
        run("cmake", "--install", BUILD, "--component", component, "--prefix", folder)
    return folder


def run(*command: str | Path, **variables: str) -> str:
    ended = subprocess.run(
        [*map(str, command)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        errors="replace",  # a model of few steps writes any bytes
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def build(source: Path, folder: Path, prefix: Path, *options: str) -> None:
    found = f"-DCMAKE_PREFIX_PATH={prefix};{TORCH}"
    run("cmake", "-G", "Ninja", "-S", source, "-B", folder, found, *options)
    run("cmake", "--build", folder)


def test_a_program_of_ten_lines_links_the_installed_libraries(prefix: Path, tmp_path: Path) -> None:
    for name, content in (("CMakeLists.txt", PROJECT), ("ten.cc", TEN_LINES), ("runs.cc", RUNS)):
        (tmp_path / name).write_text(content)
    build(tmp_path, tmp_path / "build", prefix)
    assert run(tmp_path / "build/ten", **ONE_RANK) == "1\n"
    home = str(tmp_path / "home")
    assert run(tmp_path / "build/runs", LOCKSTEP_HOME=home) == "unavailable\n"


def test_the_example_builds_outside_of_the_repository(prefix: Path, tmp_path: Path) -> None:
    build(ROOT / "examples/comm", tmp_path, prefix)
    assert (tmp_path / "sum").is_file()


def test_the_training_example_builds_and_trains_outside_of_the_repository(
    prefix: Path, tmp_path: Path
) -> None:
    # One batch: torch's headers take longer to compile than the example.
    build(ROOT / "examples/gpt", tmp_path / "build", prefix, "-DCMAKE_UNITY_BUILD=ON")
    text = tmp_path / "text.txt"
    text.write_text("All the world's a stage, and all the men and women merely players. " * 200)
    gpt, checkpoints = tmp_path / "build/gpt", tmp_path / "checkpoints"
    size = ("--layers", "1", "--width", "16", "--heads", "1", "--context", "16")
    training = (gpt, "train", "--data", text, "--checkpoints", checkpoints, *size)
    assert "finished at step 2" in run(*training, "--steps", "2", **ONE_RANK)
    assert "resuming from step 2" in run(*training, "--steps", "3", **ONE_RANK)
    written = run(gpt, "sample", "--checkpoints", checkpoints, "--prompt", "All", "--bytes", "5")
    assert written.startswith("All")


def test_every_public_header_compiles_alone(prefix: Path, tmp_path: Path) -> None:
    for header in HEADERS:
        source = tmp_path / f"{header}.cc"
        source.write_text(f"#include <lockstep/{header}>\n")
        includes = ("-I", prefix / "include", "-isystem", TORCH_HEADERS)
        run("g++", "-std=c++20", "-fsyntax-only", *includes, source)


@pytest.mark.parametrize("library", ["comm", "train", "client"])
def test_a_library_shows_only_the_names_of_its_headers(library: str, prefix: Path) -> None:
    path = prefix / f"lib/liblockstep-{library}.so"
    listed = run("nm", "--dynamic", "--demangle", "--defined-only", "--extern-only", path)
    shown = [line.split(maxsplit=2)[2] for line in listed.splitlines()]
    layers = "|".join(sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()))
    foreign = [
        name
        for name in shown
        if not name.startswith(("lockstep::", "LOCKSTEP_"))
        or re.match(rf"lockstep::({layers})::", name)
    ]
    assert shown
    assert foreign == []
