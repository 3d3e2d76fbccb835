"""Packages that only contestants need, in their own folder: build/venv is the product's."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

INSTALL_SECONDS = 900.0


def install(
    requirements: Path,
    folder: Path,
    say: Callable[[str], None],
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Path | None:
    """The folder with the packages; None, with a message, if they cannot be installed.

    options: further options of `pip install`; environment: variables that it needs.
    """
    stamp = folder / ".made-from"
    made_from = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == made_from:
        return folder
    say(f"installing what {requirements.name} names into {folder}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(folder)]
    try:
        subprocess.run(
            [*pip, *options, "--requirement", str(requirements)],
            env=os.environ | dict(environment or {}),
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
