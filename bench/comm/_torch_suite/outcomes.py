"""The outcomes of torch's tests over one backend, and of both backends beside each other."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]  # which has this package


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test."""

    test: str
    outcome: str  # "passed", "skipped" or "failed"
    reason: str = ""


def run(backend: str, ranks: int, tests: Sequence[str] = ()) -> Iterator[Outcome]:
    """The outcome of each of these tests, without names of all, in their order.

    Raises:
        RuntimeError: the program ended before the last test; its standard error is ours.
    """
    command = [sys.executable, "-m", "_torch_suite.run", backend, str(ranks), *tests]
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                yield Outcome(**json.loads(line))
        except BaseException:
            os.killpg(program.pid, signal.SIGTERM)  # its ranks too
            raise
    if program.returncode:
        raise RuntimeError(f"torch's tests over {backend} ended with {program.returncode}")


@dataclass
class Comparison:
    """Which of torch's tests have which outcome over Gloo and over Lockstep."""

    gloo: dict[str, Outcome]
    ours: dict[str, Outcome]

    @staticmethod
    def of(gloo: Iterable[Outcome], ours: Iterable[Outcome]) -> "Comparison":
        return Comparison({one.test: one for one in gloo}, {one.test: one for one in ours})

    def tests(self, over_gloo: str, over_ours: str) -> list[str]:
        """The names of the tests with these outcomes."""
        return [
            test
            for test, one in self.ours.items()
            if (self.gloo[test].outcome, one.outcome) == (over_gloo, over_ours)
        ]

    def lost(self) -> list[str]:
        """Those that pass over Gloo and not over Lockstep: failed, or skipped."""
        return self.tests("passed", "failed") + self.tests("passed", "skipped")
