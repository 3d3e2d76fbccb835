"""Where things are: the same in a checkout and in an unpacked bundle."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROGRAM = BUILD / "bin" / "lockstep"
PACKAGE = BUILD / "python"  # the Python package and the extensions
LOGS = BUILD / "logs" / "gpu"
# Only in a bundle: what bundle.py tells build.py.
MANIFEST = ROOT / "manifest.json"

PYTHONPATH = [ROOT / "tools", ROOT / "python" / "tests", PACKAGE]


def environment() -> dict[str, str]:
    """The environment of an item's process."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, PYTHONPATH)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
