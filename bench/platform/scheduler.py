"""The scheduler's pass over 10,000 waiting runs and devices, from nothing and after one event."""

import argparse
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_scheduler"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench scheduler", description=__doc__).parse_args()
    subprocess.run([PROGRAM], check=True, timeout=300)


if __name__ == "__main__":
    main()
