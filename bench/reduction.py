"""The arithmetic of collectives, with each instruction set, against what the memory allows."""

import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "bench_reduction"


def main() -> None:
    subprocess.run([PROGRAM], check=True, timeout=600)


if __name__ == "__main__":
    main()
