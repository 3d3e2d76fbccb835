"""Compiles a bundle's sources that face torch, for the Python and the torch found here.

Needs a C++20 compiler and Python's headers, and no other tool: what does not face torch is in the
bundle as libraries. torch's headers take most of the time, so several sources are compiled at once,
in as many batches as there are cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpu.layout import BUILD, LOGS, MANIFEST, PACKAGE, ROOT
from gpu.machine import available_memory

MEMORY_OF_A_COMPILER = 2 * 10**9
SECONDS_MAX = 900  # of one compiler
LOG_LINES = 30


class BuildError(Exception):
    """The message says what is missing, or which source was not compiled."""

    def __init__(self, message: str, log: list[str] | None = None) -> None:
        super().__init__(message)
        self.log = log or []


@dataclass
class Batch:
    """Sources that are compiled at once."""

    name: str
    sources: list[str]
    flags: list[str] = field(default_factory=list)

    @property
    def unit(self) -> Path:
        return BUILD / "objects" / f"{self.name}.cc"

    @property
    def object(self) -> Path:
        return self.unit.with_suffix(".o")


def build(kind: str) -> str:
    """Compiles and links what is not there yet; returns what it did."""
    manifest = json.loads(MANIFEST.read_text())
    compiler = find_compiler()
    check_python_headers()
    # The simulated device only serves machines without a GPU.
    modules = {
        name: module
        for name, module in manifest["modules"].items()
        if kind == "simulated" or not module["simulated"]
    }
    made_for = f"{platform.python_version()} {version('torch')} {sorted(modules)}"
    stamp = BUILD / "made-for"
    if stamp.exists() and stamp.read_text() == made_for:
        return f"made before, for torch {version('torch')}"
    groups = {group for module in modules.values() for group in module["groups"]}
    sources = {name: manifest["sources"][name] for name in sorted(groups)}
    batches = divide(sources, compilers())
    compile_all(compiler, batches, manifest["definitions"])
    for name, module in modules.items():
        link(compiler, name, [each for each in batches if group_of(each) in module["groups"]])
    publish(manifest["version"])
    stamp.write_text(made_for)
    count = sum(len(each) for each in sources.values())
    return (
        f"{count} sources in {len(batches)} batches by {compiler} on {compilers()} cores, "
        f"for torch {version('torch')} and Python {platform.python_version()}"
    )


def find_compiler() -> str:
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if name and shutil.which(name):
            return name
    raise BuildError("there is no C++ compiler: apt install g++, or name one in CXX")


def check_python_headers() -> None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        minor = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise BuildError(f"there is no {header}: apt install python{minor}-dev")


def compilers() -> int:
    """One for each core, as many as memory holds."""
    fit = available_memory() // MEMORY_OF_A_COMPILER
    return max(1, min(len(os.sched_getaffinity(0)), fit))


def divide(sources: dict[str, list[str]], parts: int) -> list[Batch]:
    """About one batch a core, each with sources of one group: their names do not clash."""
    total = sum(len(each) for each in sources.values())
    batches = []
    for group, names in sources.items():
        count = max(1, min(len(names), round(parts * len(names) / total)))
        batches += [Batch(f"{group}-{part}", names[part::count]) for part in range(count)]
    return batches


def group_of(batch: Batch) -> str:
    return batch.name.rpartition("-")[0]


def torch_folder() -> Path:
    found = importlib.util.find_spec("torch")
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


def compile_flags(definitions: list[str]) -> list[str]:
    torch = torch_folder()
    # The bundle's {fmt} comes before torch's own copy.
    system = [
        ROOT / "third_party/include",
        ROOT / "cmake/torch",
        torch / "include",
        torch / "include/torch/csrc/api/include",
        Path(sysconfig.get_path("include")),
    ]
    flags = ["-std=gnu++20", "-O2", "-fPIC", "-w", *(f"-D{each}" for each in definitions)]
    flags += [f"-I{ROOT / name}" for name in ("src", "include", "python")]
    return flags + [word for path in system for word in ("-isystem", str(path))]


def compile_all(compiler: str, batches: list[Batch], definitions: list[str]) -> None:
    (BUILD / "objects").mkdir(parents=True, exist_ok=True)
    flags = compile_flags(definitions)

    def compile_one(batch: Batch) -> None:
        batch.unit.write_text("".join(f'#include "{ROOT / name}"\n' for name in batch.sources))
        run([compiler, *flags, "-c", str(batch.unit), "-o", str(batch.object)], batch.name)

    longest_first = sorted(batches, key=lambda batch: -len(batch.sources))
    with ThreadPoolExecutor(compilers()) as pool:
        for _ in pool.map(compile_one, longest_first):
            pass


def link(compiler: str, name: str, batches: list[Batch]) -> None:
    path = PACKAGE / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    path.parent.mkdir(parents=True, exist_ok=True)
    libraries = BUILD / "lib"
    static = [str(each) for each in sorted(libraries.glob("*.a"))]
    shared = [str(each) for each in sorted(libraries.glob("*.so*"))]
    torch = torch_folder() / "lib"
    run(
        [
            *(compiler, "-shared", "-o", str(path)),
            *(str(each.object) for each in batches),
            *("-Wl,--start-group", *static, "-Wl,--end-group"),
            *("-Wl,--as-needed", *shared, "-Wl,--no-as-needed", f"-Wl,-rpath,{libraries}"),
            # The standard library first: libtorch shows copies of its functions.
            *("-lstdc++", f"-L{torch}", f"-Wl,-rpath,{torch}", "-ltorch", "-ltorch_cpu", "-lc10"),
            *("-ltorch_python", "-lpthread", "-ldl"),
        ],
        f"link-{path.name}",
    )


def run(command: list[str], name: str) -> None:
    log = LOGS / f"build-{name}.log"
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise BuildError(f"{name} was not compiled within {SECONDS_MAX} s") from late
    log.write_text(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
    if ended.returncode != 0:
        lines = ended.stderr.splitlines()
        first = next((line for line in lines if "error" in line or "Killed" in line), "")
        raise BuildError(f"{name}: {first or lines[-1:]}; see {log}", lines[:LOG_LINES])


def publish(lockstep: str) -> None:
    """Last: from then on `import torch` finds the backend."""
    built_for: dict[str, Any] = {
        "VERSION": lockstep,
        "BUILT_FOR_PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
        "BUILT_FOR_TORCH": version("torch").partition("+")[0],
    }
    lines = [f'{name} = "{value}"\n' for name, value in built_for.items()]
    (PACKAGE / "lockstep" / "_build.py").write_text("".join(lines))
    metadata = PACKAGE / f"lockstep-{lockstep}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: lockstep\nVersion: {lockstep}\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[torch.backends]\nlockstep = lockstep.backend:register\n"
    )
