"""The cost of the flight recorder per operation, against the clock readings that it needs."""

import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "bench_flight"


def main() -> None:
    subprocess.run([PROGRAM], check=True, timeout=600)


if __name__ == "__main__":
    main()
