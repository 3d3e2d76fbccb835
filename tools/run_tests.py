"""Runs every check and test, or those that are named: `./dev test [NAME...]`.

A NAME chooses the programs whose name contains it; if there are none, the single tests whose name
contains it. At most two programs run at a time; those in ALONE, which measure time or fill the
machine with ranks, run after the others, one by one. The last line is `N passed, N failed`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from fnmatch import fnmatch

from test_programs import PYTHON, ROOT, Check, GoogleTest, Outcome, Program, PytestFile, kill_all

ALONE = ("comm_*_test", "train*_test", "tests/cluster/*", "python/*")

GREEN, RED, FAINT, PLAIN = (
    ("\033[32m", "\033[31m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("",) * 4
)


def checks() -> list[Program]:
    ruff = [str(ROOT / "build/venv/bin/ruff"), "check", "--quiet", "--output-format=concise"]
    mypy = [str(PYTHON), "-m", "mypy", "--no-error-summary"]
    scripts = [str(ROOT / "tools/check_layers")]
    checked = [name for name in ("python", "tools") if any((ROOT / name).rglob("*.py"))]
    linted = [name for name in ("bench", "examples", "tests") if any((ROOT / name).rglob("*.py"))]
    return [
        Check("check layers", [str(ROOT / "tools/check_layers")]),
        Check("check format", [str(ROOT / "tools/check_format")]),
        Check("check python lint", [*ruff, *checked, *linted, *scripts]),
        Check("check python types", [*mypy, *checked]),
        Check("check layers types", [*mypy, *scripts]),
    ]


def google_tests() -> list[Program]:
    """The programs that the build knows now; what an older build left in build/tests is not run."""
    listed = subprocess.run(
        ["ninja", "-C", str(ROOT / "build"), "-t", "targets", "all"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = (line.split(": ")[0] for line in listed.splitlines() if "CXX_EXECUTABLE_LINKER" in line)
    paths = sorted(ROOT / "build" / name for name in names if name.startswith("tests/"))
    return [GoogleTest(path.name, path) for path in paths]


def pytest_files() -> list[Program]:
    found = (path for folder in ("tests", "python") for path in (ROOT / folder).rglob("test_*.py"))
    return [PytestFile(str(path.relative_to(ROOT))) for path in sorted(found)]


Chosen = list[tuple[Program, str | None]]


def choose(programs: list[Program], names: list[str]) -> Chosen:
    """Each program to run, with the name of the tests in it to which it is narrowed."""
    whole = [each for each in programs if not names or any(name in each.name for name in names)]
    chosen: Chosen = [(program, None) for program in whole]
    for name in names:
        if not any(name in program.name for program in programs):
            chosen += [(program, name) for program in programs if program not in whole]
    return chosen


def runs_alone(program: Program) -> bool:
    return any(fnmatch(program.name, pattern) for pattern in ALONE)


def run_all(chosen: Chosen) -> Iterable[tuple[Program, Outcome]]:
    together = [each for each in chosen if not runs_alone(each[0])]
    alone = [each for each in chosen if runs_alone(each[0])]
    for group, workers in ((together, min(2, os.cpu_count() or 1)), (alone, 1)):
        with ThreadPoolExecutor(workers) as pool:
            running: dict[Future[Outcome], Program] = {
                pool.submit(program.run, only): program for program, only in group
            }
            try:
                for future in as_completed(running):
                    yield running[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                kill_all()
                raise


def show(program: Program, outcome: Outcome) -> None:
    verdict = f"{RED}FAILED{PLAIN}" if outcome.failures else f"{GREEN}ok{PLAIN}    "
    counts = f"{outcome.passed} passed"
    if outcome.failures:
        counts += f", {len(outcome.failures)} failed"
    if outcome.skipped:
        counts += f", {outcome.skipped} skipped"
    print(f"{verdict} {program.name:<44} {outcome.seconds:6.1f} s  {counts}", flush=True)
    for failure in outcome.failures:
        print(f"\n    {RED}{failure.name}{PLAIN}")
        print("".join(f"      {line}\n" for line in failure.output.splitlines()), end="")
        print(f"    {FAINT}again:{PLAIN} {failure.again}\n", flush=True)


def main(names: list[str]) -> int:
    if not (ROOT / "build/build.ninja").exists():
        print("nothing is built yet; run ./dev build", file=sys.stderr)
        return 1
    started = time.monotonic()
    passed = failed = 0
    for program, outcome in run_all(choose([*checks(), *google_tests(), *pytest_files()], names)):
        if outcome.ran:
            show(program, outcome)
        passed += outcome.passed
        failed += len(outcome.failures)
    if passed + failed == 0:
        print(f"no test is named {' or '.join(names)}" if names else "there is no test")
    print(f"\nin {time.monotonic() - started:.0f} s; each program's output is in build/logs/test")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
