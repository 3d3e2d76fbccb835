"""The cost of the flight recorder per operation, against the clock readings that it needs."""

import argparse
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_flight"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench flight", description=__doc__).parse_args()
    subprocess.run([PROGRAM], check=True, timeout=600)


if __name__ == "__main__":
    main()
