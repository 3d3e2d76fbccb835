"""The controller's decisions and a daemon's start, with ten thousand runs in the store."""

import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "bench_deciding"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        subprocess.run([PROGRAM, folder], check=True, timeout=300)


if __name__ == "__main__":
    main()
