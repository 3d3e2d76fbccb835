"""The controller's decisions with 10,000 runs, and a daemon's start and lists with 100,000."""

import argparse
import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_controller"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench controller", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        subprocess.run([PROGRAM, folder], check=True, timeout=900)


if __name__ == "__main__":
    main()
