"""Describes this machine for the report: python -m gpu.machine RESULT.

The result is written twice: first without torch, whose import may fail or crash.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu import nvml
from gpu.layout import MANIFEST, ROOT


def version() -> str:
    found = re.search(r"project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    return found[1] if found else "unknown"


def commit() -> str:
    if MANIFEST.exists():
        return str(json.loads(MANIFEST.read_text())["commit"])
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.strip()


def available_memory() -> int:
    """Bytes of main memory that programs may still take."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) * 1024 if found else 0


def processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def without_torch() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "lockstep": version(),
        "commit": commit(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "glibc": platform.libc_ver()[1],
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "driver": nvml.driver(),
        "cards": [asdict(card) for card in nvml.cards()],
        "has_torch": importlib.util.find_spec("torch") is not None,
        "torch": "",
        "cuda": "",
        "nccl": "",
        "gpus": 0,
    }


def with_torch() -> dict[str, Any]:
    # The extension may not be compiled yet, and this Python may have a Lockstep that names it.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    torch = importlib.import_module("torch")
    found = {"torch": torch.__version__, "cuda": torch.version.cuda or ""}
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        found["gpus"] = torch.cuda.device_count()
        found["gpu_names"] = [
            torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
        ]
    return found


def main() -> None:
    result = Path(sys.argv[1])
    machine = without_torch()
    result.write_text(json.dumps(machine))
    if machine["has_torch"]:
        machine |= with_torch()
        result.write_text(json.dumps(machine))


if __name__ == "__main__":
    main()
