"""Packages that only contestants need, in their own folder: build/venv is the product's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "train-requirements.txt"
INSTALL_SECONDS = 900.0
# All are named there: what they ask for beyond that would be another torch. Packages that come as
# sources are built in the environment that runs this, which has what that needs.
HOW = ("--no-deps", "--no-build-isolation", "--use-pep517")


def install(build: Path, say: Callable[[str], None]) -> Path | None:
    """The folder with the packages; None, with a message, if they cannot be installed."""
    folder = build / "bench" / "train-packages"
    stamp = folder / ".made-from"
    made_from = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == made_from:
        return folder
    say(f"installing what {REQUIREMENTS.name} names into {folder}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(folder)]
    try:
        subprocess.run(
            [*pip, *HOW, "--requirement", str(REQUIREMENTS)],
            env=os.environ | {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"},
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or ""
        say(f"some do not take part: {error}\n{said[-500:]}")
        return None
    stamp.write_text(made_from)
    return folder
