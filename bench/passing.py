"""The pass over ten thousand waiting runs and as many devices, from nothing and after one event."""

import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "bin" / "bench_passing"


def main() -> None:
    subprocess.run([PROGRAM], check=True, timeout=300)


if __name__ == "__main__":
    main()
