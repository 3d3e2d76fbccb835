"""The controller's decisions with budgets for 10,000 projects, compared with those without."""

import argparse
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "bench_budgets"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench budgets", description=__doc__).parse_args()
    subprocess.run([PROGRAM], check=True, timeout=900)


if __name__ == "__main__":
    main()
