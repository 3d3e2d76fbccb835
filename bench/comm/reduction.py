"""The arithmetic of collectives, with each instruction set, against what the memory allows."""

import argparse
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_reduction"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench reduction", description=__doc__).parse_args()
    subprocess.run([PROGRAM], check=True, timeout=600)


if __name__ == "__main__":
    main()
