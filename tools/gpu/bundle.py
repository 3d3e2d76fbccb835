"""./dev gpu --bundle: an archive for a machine with a GPU, without network and without this build.

It has the sources that face torch with the headers that they need, and all else compiled: the
libraries of the other layers, the lockstep command, other projects' libraries. build.py compiles
the sources there.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from gpu.layout import BUILD, ROOT
from gpu.machine import commit, version

MB_MAX = 60
# The targets that the extension links (python/CMakeLists.txt).
LINKED = ("comm/torch", "train/recovery", "train/checkpoint", "train/checkpoint/format", "train")
SIMULATED = "train/simulated_device"
# Other projects' headers that our sources include. Whole, since another compiler may take other
# branches of them.
HEADERS = ("fmt", "nlohmann", "xxhash.h")
PYTHON_SOURCES = ("extension.cc", "fusion.cc", "train.cc", "recovery.cc", "checkpoints.cc")


class Architecture:
    """The layers of src/CMakeLists.txt, as tools/check_layers reads them."""

    def __init__(self) -> None:
        path = str(ROOT / "tools" / "check_layers")
        loader = importlib.machinery.SourceFileLoader("check_layers", path)
        spec = importlib.util.spec_from_loader("check_layers", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["check_layers"] = module
        loader.exec_module(module)
        self.layers: dict[str, Any] = module.read_layers(ROOT)

    def closure(self, names: tuple[str, ...]) -> list[str]:
        found: set[str] = set()
        missing = list(names)
        while missing:
            name = missing.pop()
            if name not in found:
                found.add(name)
                missing += self.layers[name].deps
        return sorted(found)

    def faces_torch(self, name: str) -> bool:
        return "torch" in self.layers[name].uses

    def files(self, name: str, suffix: str) -> list[Path]:
        """Those of the layer, without those of layers inside it, tests and fuzz targets."""
        folder = ROOT / "src" / name
        inner = [ROOT / "src" / each for each in self.layers if each.startswith(f"{name}/")]
        found = (
            path
            for path in sorted(folder.rglob(f"*{suffix}"))
            if not any(path.is_relative_to(each) for each in inner)
        )
        return [path for path in found if not re.search(r"_(test|fuzz)\.(cc|h)$", path.name)]


def bundle(archive: Path) -> None:
    architecture = Architecture()
    layers = architecture.closure((*LINKED, SIMULATED))
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as name:
        root = Path(name) / f"lockstep-gpu-{version()}"
        root.mkdir()
        copy_sources(architecture, layers, root)
        copy_headers(root)
        copy_libraries(architecture, layers, root)
        copy_acceptance(root)
        write_manifest(architecture, layers, root)
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(root, root.name, filter=without_owner)
    size = archive.stat().st_size / 1e6
    if size > MB_MAX:
        raise SystemExit(f"{archive} has {size:.0f} MB, more than {MB_MAX}: see what became large")
    print(f"{size:.1f} MB  {archive}")


def without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def copy(path: Path, root: Path) -> None:
    target = root / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)


def copy_sources(architecture: Architecture, layers: list[str], root: Path) -> None:
    for name in layers:
        for path in architecture.files(name, ".h"):
            copy(path, root)
        if architecture.faces_torch(name):
            for path in architecture.files(name, ".cc"):
                copy(path, root)
    for folder in ("include", "cmake/torch"):
        for path in (ROOT / folder).rglob("*.h"):
            copy(path, root)
    for pattern in ("python/*.cc", "python/*.h", "python/tests/simulated_device.cc"):
        for path in ROOT.glob(pattern):
            copy(path, root)


def copy_headers(root: Path) -> None:
    target = root / "third_party" / "include"
    target.mkdir(parents=True)
    for name in HEADERS:
        path = Path("/usr/include") / name
        if path.is_dir():
            shutil.copytree(path, target / name)
        else:
            shutil.copy2(path, target / name)


def copy_libraries(architecture: Architecture, layers: list[str], root: Path) -> None:
    """Without debug information; the program with the libraries that it needs."""
    libraries = root / "build" / "lib"
    libraries.mkdir(parents=True)
    for name in layers:
        library = BUILD / "lib" / f"libls_{name.replace('/', '_')}.a"
        if not architecture.faces_torch(name) and library.exists():
            target = libraries / library.name
            run("strip", "--strip-debug", "-o", target, library)
    for component in ("program", "dependencies"):
        run(
            *("cmake", "--install", BUILD, "--component", component, "--strip"),
            *("--prefix", root / "installed"),
        )
    shutil.move(root / "installed" / "bin", root / "build" / "bin")
    # Debian's folder for libraries differs from that of the program's search path.
    for path in (root / "installed").rglob("*.so*"):
        shutil.copy2(path, libraries / path.name, follow_symlinks=False)
    shutil.rmtree(root / "installed")


def copy_acceptance(root: Path) -> None:
    for suffix in (".py", ".cc"):
        for path in sorted((ROOT / "tools" / "gpu").rglob(f"*{suffix}")):
            copy(path, root)
    for name in ("CMakeLists.txt", "LICENSE", "python/tests/models.py"):
        copy(ROOT / name, root)
    for path in (ROOT / "python" / "tests").glob("simulated_device.py"):
        copy(path, root)
    package = root / "build" / "python" / "lockstep"
    shutil.copytree(ROOT / "python" / "lockstep", package, ignore=shutil.ignore_patterns("__py*"))
    for name in ("README.md", "gpu"):
        shutil.copy2(ROOT / "packaging" / "gpu" / name, root / name)


def write_manifest(architecture: Architecture, layers: list[str], root: Path) -> None:
    sources = {
        name.replace("/", "_"): [
            str(path.relative_to(ROOT)) for path in architecture.files(name, ".cc")
        ]
        for name in layers
        if architecture.faces_torch(name)
    }
    of_lockstep = [name for name in sources if name != SIMULATED.replace("/", "_")]
    sources["python"] = [f"python/{name}" for name in PYTHON_SOURCES]
    sources["gpu_backends"] = ["tools/gpu/backends.cc"]
    sources["simulated_python"] = ["python/tests/simulated_device.cc"]
    modules = {
        "lockstep/_lockstep": {"groups": [*of_lockstep, "python"], "simulated": False},
        "_gpu_backends": {"groups": ["gpu_backends"], "simulated": False},
        "_simulated_device": {
            "groups": [SIMULATED.replace("/", "_"), "simulated_python"],
            "simulated": True,
        },
    }
    manifest = {
        "version": version(),
        "commit": commit(),
        "definitions": definitions(),
        "sources": sources,
        "modules": modules,
    }
    (root / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def definitions() -> list[str]:
    """As the extension is compiled here, but for its name."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if "lockstep_python.dir" in entry["command"]:
            words = shlex.split(entry["command"])
            found = sorted({word[2:] for word in words if word.startswith("-D")})
            return [each for each in found if not each.startswith(("TORCH_EXT", "lockstep_"))]
    raise SystemExit("the build does not compile the extension: run ./dev build")


def run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev gpu --bundle", description="Makes the archive.")
    default = BUILD / "package" / f"lockstep-gpu-{version()}.tar.gz"
    parser.add_argument("file", nargs="?", type=Path, default=default)
    archive = parser.parse_args().file
    archive.parent.mkdir(parents=True, exist_ok=True)
    bundle(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
