"""The command ``lockstep`` of the wheel: it starts the program that lies beside this file."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("bin") / "lockstep"
    try:
        os.execv(program, ["lockstep", *sys.argv[1:]])
    except OSError as error:
        raise SystemExit(f"lockstep: {program}: {error.strerror}; reinstall the wheel") from None
