"""The controller's decisions and a daemon's start, with 10,000 runs in the store."""

import argparse
import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_controller"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench controller", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        subprocess.run([PROGRAM, folder], check=True, timeout=300)


if __name__ == "__main__":
    main()
