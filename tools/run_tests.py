"""Runs every check and test, or those that are named: `./dev test [--quick] [NAME...]`.

A NAME chooses the programs whose name contains it; if there are none, the single tests whose name
contains it. At most two programs run at a time, and a third that mostly waits, while the builds for
checks compile behind them at the lowest priority; what fills the machine, or measures time, runs at
the end. Without a NAME, up to three tests that failed by an assertion then run once more, alone:
one that passes is shown as flaky and does not fail the command. --quick leaves out the builds for
checks and clang-tidy; `--check KIND [NAME...]` runs one of those, or another kind that `./dev
check` names. --targets prints what has to be built for a run of everything.
The last line is `N passed, N failed`, with `, N flaky` if there are any.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from test_plan import (
    CheckedBuild,
    checked_build,
    comes_last,
    fuzzing,
    google_tests,
    is_busy,
    mostly_waits,
    pytest_files,
    quick_checks,
    targets_of_whole_run,
    tidy,
    upgrade,
    with_torch,
)
from test_programs import ROOT, Failure, Outcome, Program, kill_all

GREEN, RED, FAINT, PLAIN = (
    ("\033[32m", "\033[31m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("",) * 4
)

Chosen = list[tuple[Program, str | None]]

FLAKY_MAX = 3  # more failed tests are no accident of a busy machine


def choose(programs: list[Program], names: list[str]) -> Chosen:
    """Each program to run, with the name of the tests in it to which it is narrowed."""
    whole = [each for each in programs if not names or any(name in each.name for name in names)]
    chosen: Chosen = [(program, None) for program in whole]
    for name in names:
        if not any(name in program.name for program in programs):
            chosen += [(program, name) for program in programs if program not in whole]
    return chosen


class Runner:
    """Runs two programs at a time, one that mostly waits, and one compilation beside them, whose
    tests follow it."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.tests = ThreadPoolExecutor(min(2, os.cpu_count() or 1))
        self.waiting = ThreadPoolExecutor(1)
        self.compilations = ThreadPoolExecutor(1)
        self.running: dict[Future[Outcome], Program] = {}

    def run(self, chosen: Chosen, behind: list[Program]) -> Iterable[tuple[Program, Outcome]]:
        try:
            busy = [each for each in chosen if is_busy(each[0])]
            last = [each for each in chosen if comes_last(each[0])]
            waiting = [each for each in chosen if mostly_waits(each[0])]
            self.start(waiting, self.waiting)
            self.start([each for each in chosen if each not in busy + last + waiting], self.tests)
            self.start([(each, None) for each in behind], self.compilations)
            yield from self.ended()
            for each in busy:
                self.start([each], self.tests)
                yield from self.ended()
            self.start(last, self.tests)
            yield from self.ended()
        except BaseException:
            for pool in (self.tests, self.waiting, self.compilations):
                pool.shutdown(wait=False, cancel_futures=True)
            kill_all()
            raise

    def start(self, chosen: Chosen, pool: ThreadPoolExecutor) -> None:
        for program, only in chosen:
            self.running[pool.submit(program.run, only)] = program

    def ended(self) -> Iterable[tuple[Program, Outcome]]:
        """Waits until nothing runs any more."""
        while self.running:
            for future in wait(self.running, return_when=FIRST_COMPLETED).done:
                program, outcome = self.running.pop(future), future.result()
                if isinstance(program, CheckedBuild) and not outcome.failures:
                    self.start(choose(program.programs(), self.names), self.tests)
                yield program, outcome


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


def is_flaky(program: Program, failures: list[Failure]) -> bool:
    """Runs the failed tests once more, alone. True if each of them passes now."""
    for failure in failures:
        print(f"again  {program.name}: {failure.test}", flush=True)
        outcome = program.run(failure.test)
        if not outcome.passed or outcome.failures:
            return False
        print(f"{RED}FLAKY{PLAIN}  {failure.name} failed above, and passes alone", flush=True)
    return True


def flaky_tests(failed: list[tuple[Program, Outcome]]) -> int:
    """The number of failed tests that pass when they run alone; 0 if too many failed."""
    failures = [failure for _, outcome in failed for failure in outcome.failures]
    if len(failures) > FLAKY_MAX or not all(failure.test for failure in failures):
        return 0
    return sum(
        len(outcome.failures) for program, outcome in failed if is_flaky(program, outcome.failures)
    )


def plan(arguments: argparse.Namespace) -> tuple[Chosen, list[Program]]:
    """The tests and builds to run, and the programs to compile."""
    if arguments.check == "tidy":
        return [(tidy(everything=arguments.all), None)], []
    if arguments.check == "clang":
        return [], [checked_build("asan", tests=False), checked_build("clang")]
    if arguments.check == "fuzz":
        return [], [fuzzing(arguments.seconds)]
    if arguments.check == "upgrade":
        return [], [upgrade()]
    if arguments.check == "torch":
        return [], [with_torch(version) for version in arguments.names]
    if arguments.check:
        return [], [checked_build(arguments.check)]
    is_short = arguments.quick or arguments.names
    tests = [*google_tests(whole_run=not is_short), *pytest_files()]
    chosen = choose([*quick_checks(), *tests], arguments.names)
    if is_short:
        return chosen, []
    return chosen, [tidy(), *(checked_build(each) for each in ("asan", "tsan"))]


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev test")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--check", choices=("asan", "tsan", "clang", "tidy", "fuzz", "torch", "upgrade")
    )
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("names", nargs="*")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    arguments = parse(words)
    if not arguments.check and not (ROOT / "build/build.ninja").exists():
        print("nothing is built yet; run ./dev build", file=sys.stderr)
        return 1
    if arguments.targets:
        print(*targets_of_whole_run(), sep="\n")
        return 0
    started = time.monotonic()
    passed = 0
    failed: list[tuple[Program, Outcome]] = []
    for program, outcome in Runner(arguments.names).run(*plan(arguments)):
        if outcome.ran:
            show(program, outcome)
        passed += outcome.passed
        if outcome.failures:
            failed.append((program, outcome))
    failures = sum(len(outcome.failures) for _, outcome in failed)
    if passed + failures == 0:
        named = " or ".join(arguments.names)
        print(f"no test is named {named}" if named else "there is no test")
    flaky = flaky_tests(failed) if not arguments.names else 0
    print(f"\nin {time.monotonic() - started:.0f} s; each program's output is in build/logs/test")
    print(f"{passed} passed, {failures - flaky} failed" + (f", {flaky} flaky" if flaky else ""))
    return 0 if passed and failures == flaky else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
