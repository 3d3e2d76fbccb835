"""NCCL's network plugin against libfabric itself: bandwidth and latency between two processes."""

import argparse
import subprocess
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"


def main() -> None:
    argparse.ArgumentParser(prog="./dev bench plugin", description=__doc__).parse_args()
    plugin = BUILD / "lib" / "libnccl-net-lockstep.so"
    subprocess.run([BUILD / "bin" / "bench_plugin", plugin], check=True, timeout=600)


if __name__ == "__main__":
    main()
