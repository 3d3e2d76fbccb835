"""The series store: points stored a second, bytes a point, curves over ten million points."""

import argparse
import subprocess
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build/bin/bench_series"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=PROGRAM, help="the built measurement")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.program, folder], check=True)


if __name__ == "__main__":
    main()
