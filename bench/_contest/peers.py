"""The peers: Open MPI and MPICH as Debian has them, and Gloo as PyTorch brings it along.

Missing packages are installed (bench/apt-packages.txt), since only benchmarks need them. Both MPIs
claim the names mpirun and mpicc, so everything is called by its full name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .contestant import Entry

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SOURCES = [HERE / "mpi_ranks.cc", HERE / "rank.cc"]
HEADERS = [HERE / "rank.h"]


@dataclass(frozen=True)
class Mpi:
    compiler: str
    start: tuple[str, ...]  # followed by the number of ranks and the program
    version: tuple[str, ...]


MPIS = {
    # Bound to cores, it would put the ranks of two hosts on the same core.
    "open_mpi": Mpi(
        "mpicxx.openmpi",
        ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"),
        ("mpirun.openmpi", "--version"),
    ),
    # Without `fork` it would use ssh to this machine.
    "mpich": Mpi(
        "mpicxx.mpich",
        ("mpiexec.mpich", "-launcher", "fork", "-n"),
        ("mpichversion", "-v"),
    ),
}


def entries(names: list[str], ranks: int, build: Path) -> list[Entry]:
    """The peers of these names, ready to be started."""
    return [_entry(name, ranks, build) for name in names]


def available(names: list[str], build: Path, say: Callable[[str], None]) -> list[str]:
    """The names that can take part, installed and compiled; reports the others with a reason."""
    if any(shutil.which(MPIS[name].compiler) is None for name in names if name in MPIS):
        install(say)
    return [name for name in names if _ready(name, build, say)]


def python(module: str, *folders: Path) -> list[str]:
    """Runs a module of this folder, which also finds the packages in those folders."""
    found = [*map(str, (HERE.parent, *folders)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return ["env", f"PYTHONPATH={os.pathsep.join(found)}", sys.executable, "-m", module]


def _entry(name: str, ranks: int, build: Path) -> Entry:
    if name == "gloo":
        return Entry(name, [*python("_contest.gloo_ranks"), str(ranks)])
    return Entry(name, [*MPIS[name].start, str(ranks), str(program_of(name, build))])


def _ready(name: str, build: Path, say: Callable[[str], None]) -> bool:
    try:
        version = _gloo_version() if name == "gloo" else _compile(name, build)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        say(f"{name} does not take part: {error}\n{said}".strip())
        return False
    say(f"{name}: {version}")
    return True


def _gloo_version() -> str:
    command = [sys.executable, "-c", "import torch; print(torch.__version__)"]
    return f"of torch {_output(command)}"


def _compile(name: str, build: Path) -> str:
    program, mpi = program_of(name, build), MPIS[name]
    newest = max(path.stat().st_mtime for path in SOURCES + HEADERS)
    if not program.exists() or program.stat().st_mtime < newest:
        program.parent.mkdir(parents=True, exist_ok=True)
        # The old C++ interface of both is left out, because it warns and is not used.
        settings = ["-std=c++20", "-O2", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
        _output([mpi.compiler, *settings, *map(str, SOURCES), "-o", str(program)])
    return " ".join(_output([*mpi.version]).splitlines()[0].split())


def program_of(name: str, build: Path) -> Path:
    """An MPI's rank."""
    return build / "bench" / f"ranks_of_{name}"


def _output(command: list[str]) -> str:
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return ended.stdout.strip()


def install(say: Callable[[str], None]) -> None:
    """Installs the packages that benchmarks need and this machine lacks."""
    lines = (ROOT / "bench" / "apt-packages.txt").read_text().splitlines()
    packages = [word for line in lines for word in line.partition("#")[0].split()]
    say(f"installing {', '.join(packages)}")
    # As ./dev installs: as root or with sudo without a password, waiting for dpkg's lock.
    script = 'source tools/dev/packages.sh; may_be_root && apt_install "$@"'
    command = ["bash", "-c", script, "bash", *packages]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        say(f"that failed; install them by hand:\n{ended.stdout[-500:]}{ended.stderr[-500:]}")
