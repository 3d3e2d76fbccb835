"""The software of a run, which rank 0 logs as artifacts when it first reports.

`lockstep/environment.json` has the versions of Python, torch, CUDA and the driver, and
`lockstep/requirements.txt` the packages as pip takes them (docs/design/provenance.md).
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = "lockstep"
_DRIVER = Path("/proc/driver/nvidia/version")


def log_environment() -> None:
    """In rank 0 of a run of ``lockstep run``; elsewhere it does nothing. Raises nothing."""
    from lockstep._agent import warn
    from lockstep._artifact import has_rank_token, log_artifact
    from lockstep._client.daemon import DaemonError

    if os.environ.get("RANK") != "0" or not has_rank_token():
        return
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            packages = _packages()
            described = json.dumps(_description(packages), indent=2, sort_keys=True)
            (folder / "environment.json").write_text(described + "\n")
            lines = [f"{package}=={version}\n" for package, version in packages.items()]
            (folder / "requirements.txt").write_text("".join(lines))
            log_artifact(folder, FOLDER)
    except (OSError, DaemonError) as error:
        warn(f"the environment is not kept with the run: {error}")


def _packages() -> dict[str, str]:
    """By the names of their folders, `NAME-VERSION.dist-info`: to read each one's metadata takes a
    hundred times as long. As in an import, the first of a name counts."""
    found: dict[str, str] = {}
    for folder in sys.path:
        for each in Path(folder or ".").glob("*.dist-info"):
            name, _, version = each.name.removesuffix(".dist-info").partition("-")
            found.setdefault(name.replace("_", "-"), version)
    return dict(sorted(found.items()))


def _description(packages: dict[str, str]) -> dict[str, Any]:
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    seed = torch.initial_seed() if torch is not None and hasattr(torch, "initial_seed") else None
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "arguments": sys.argv,
        "platform": platform.platform(),
        "torch": packages.get("torch"),
        "cuda": cuda,
        "driver": _driver(),
        "torch_seed": seed,
        "packages": packages,
    }


def _driver() -> str | None:
    try:
        return _DRIVER.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
