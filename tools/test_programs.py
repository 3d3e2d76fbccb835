"""The kinds of program that ./dev test runs, turned into counts by what each writes about itself.

A check is one test. A gtest program and a pytest file write a report (JSON, JUnit XML) that counts
their tests; one that dies before it could write counts as one failure more than what it had done.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "build/venv/bin/python"
LOGS = ROOT / "build/logs/test"
SECONDS_MAX = 300
FOLDER_SECONDS_MAX = 900  # of a folder with several files of tests


@dataclass
class Failure:
    """One failed test: its output, and the command that runs it alone. `test` names it if it failed
    by an assertion, and not by a crash, a time-out or a report of a sanitizer."""

    name: str
    output: str
    again: str
    test: str = ""


@dataclass
class Outcome:
    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ran(self) -> bool:
        return self.passed + self.skipped + len(self.failures) > 0


@dataclass
class Ended:
    """The end of a process: its exit status (negative: the signal), or its time-out."""

    status: int
    output: str
    stopped_after: float | None = None

    def told(self) -> str:
        if self.stopped_after is not None:
            return f"was stopped after {self.stopped_after} s"
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"


def environment(scratch: Path) -> dict[str, str]:
    """The environment of every test: its own temporary folder, and our Python package."""
    return os.environ | {
        "TMPDIR": str(scratch),
        "PYTHONPATH": f"{ROOT / 'build/python'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LOCKSTEP_BUILD": str(ROOT / "build"),
        # hwloc's plugins, where a machine has them, leak what the sanitizers then report.
        "HWLOC_PLUGINS_PATH": str(scratch),
    }


live_groups: set[int] = set()


def kill_all() -> None:
    """Ends running programs, so that Ctrl-C need not wait for them."""
    for group in list(live_groups):
        kill_group(group)


def execute(
    command: list[str], log: Path, scratch: Path, seconds_max: float | None = None
) -> Ended:
    """Runs a command in its own process group, and leaves no process of it behind."""
    with log.open("wb") as file:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(scratch),
                start_new_session=True,
            )
        except OSError as error:
            return Ended(127, f"{command[0]} cannot be started: {error.strerror}")
        live_groups.add(process.pid)
        stopped_after = None
        try:
            process.wait(seconds_max or SECONDS_MAX)
        except subprocess.TimeoutExpired:
            stopped_after = seconds_max or SECONDS_MAX
        kill_group(process.pid)
        process.wait()
        live_groups.discard(process.pid)
    return Ended(process.returncode, log.read_text(errors="replace"), stopped_after)


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def tail(text: str, lines: int = 40) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])


def excerpt(output: str) -> str:
    """The end of a program's output, or a sanitizer's report from its beginning."""
    report = re.search(r"^.*(?:(?:WARNING|ERROR): \w+Sanitizer|: runtime error: ).*$", output, re.M)
    if report is None:
        return tail(output)
    return "\n".join(output[report.start() :].splitlines()[:40])


class Program(ABC):
    """A program with tests. `only` narrows it to tests whose name contains it."""

    name: str

    def run(self, only: str | None) -> Outcome:
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / ("-".join([self.name, *([only] if only else [])]).replace("/", "_") + ".log")
        started = time.monotonic()
        # Short, because the path of a Unix socket may have 107 bytes.
        with tempfile.TemporaryDirectory(prefix="ls-", ignore_cleanup_errors=True) as scratch:
            os.chmod(scratch, 0o711)  # ranks of other users pass through it
            outcome = self.execute(only, log, Path(scratch))
        outcome.seconds = time.monotonic() - started
        return outcome

    @abstractmethod
    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome: ...


@dataclass
class Check(Program):
    name: str
    command: list[str]
    seconds_max: float | None = None

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        if only is not None:
            return Outcome()
        ended = execute(self.command, log, scratch, self.seconds_max)
        if ended.status == 0:
            return Outcome(passed=1)
        again = shlex.join(self.command).replace(f"{ROOT}/", "")
        return Outcome(failures=[Failure(self.name, tail(ended.output, 60), again)])


@dataclass
class GoogleTest(Program):
    name: str
    path: Path
    left_out: str = ""  # tests that are not run, as gtest's filter names them
    part: int = 0  # of its tests, the first is 0
    parts: int = 1

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        if not self.path.exists():
            build = self.path.parent.parent.relative_to(ROOT)
            again = f"ninja -C {build} {self.path.name}"
            unbuilt = Failure(f"{self.name} is not built", "", again)
            return Outcome(failures=[unbuilt])
        report = scratch / "report.json"
        shard = [f"GTEST_TOTAL_SHARDS={self.parts}", f"GTEST_SHARD_INDEX={self.part}"]
        command = ["env", *shard] if only is None and self.parts > 1 else []
        command += [str(self.path), f"--gtest_output=json:{report}", "--gtest_color=no"]
        if only is not None or self.left_out:
            command.append(f"--gtest_filter=*{only or ''}*-{self.left_out}")
        ended = execute(command, log, scratch)
        outcome = self.counts(ended, report)
        if ended.status != 0 and not outcome.failures:
            outcome.failures.append(self.failure("", f"{self.name} {ended.told()}", ended.output))
        if only is None and not outcome.ran:
            outcome.failures.append(self.failure("", f"{self.name} holds no test", ""))
        return outcome

    def counts(self, ended: Ended, report: Path) -> Outcome:
        try:
            suites = json.loads(report.read_text())["testsuites"]
        except (OSError, ValueError, KeyError):
            return self.counts_of_output(ended)
        outcome = Outcome()
        for test in (test for suite in suites for test in suite["testsuite"]):
            name = f"{test['classname']}.{test['name']}"
            if test.get("failures"):
                failure = self.failure(name, name, block_of(name, ended.output))
                failure.test = name
                outcome.failures.append(failure)
            elif test["result"] == "SKIPPED":
                outcome.skipped += 1
            elif test["status"] == "RUN":
                outcome.passed += 1
        return outcome

    def counts_of_output(self, ended: Ended) -> Outcome:
        """For a program that died: its finished tests, and the test in which it died."""
        started = re.findall(r"^\[ RUN      \] (\S+)", ended.output, re.M)
        result_line = r"^\[ +(OK|FAILED|SKIPPED) \] (\S+?)(?:,.*)? \(\d+ ms\)"
        finished = re.findall(result_line, ended.output, re.M)
        outcome = Outcome()
        for result, name in finished:
            if result == "FAILED":
                outcome.failures.append(self.failure(name, name, block_of(name, ended.output)))
            else:
                outcome.passed += result == "OK"
                outcome.skipped += result == "SKIPPED"
        for name in started[len(finished) :]:
            text = block_of(name, ended.output)
            outcome.failures.append(self.failure(name, f"{name} {ended.told()}", text))
        return outcome

    def failure(self, test: str, name: str, output: str) -> Failure:
        narrowed = f" --gtest_filter={test}" if test else ""
        return Failure(name, excerpt(output), f"{os.path.relpath(self.path, ROOT)}{narrowed}")


def block_of(test: str, output: str) -> str:
    """The output of a gtest program between the start of a test and the start of the next."""
    start = output.find(f"[ RUN      ] {test}\n")
    end = output.find("[ RUN      ]", start + 1)
    return output[start : end if end > 0 else None] if start >= 0 else output


@dataclass
class PytestFile(Program):
    name: str  # of a file, or of a folder with several

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        report = scratch / "report.xml"
        command = [str(PYTHON), "-m", "pytest", "-q", f"--junitxml={report}", self.name]
        if only is not None:
            command += ["-k", only]
        is_folder = (ROOT / self.name).is_dir()
        ended = execute(command, log, scratch, FOLDER_SECONDS_MAX if is_folder else None)
        outcome = self.counts(report)
        nothing_chosen = ended.status == 5 and only is not None
        if ended.status != 0 and not outcome.failures and not nothing_chosen:
            told = f"{self.name} {ended.told()}"
            outcome.failures.append(Failure(told, tail(ended.output), self.again("")))
        return outcome

    def counts(self, report: Path) -> Outcome:
        outcome = Outcome()
        try:
            cases = list(ElementTree.parse(report).iter("testcase"))
        except (OSError, ElementTree.ParseError):
            return outcome
        for case in cases:
            failed = case.find("failure")
            failed = case.find("error") if failed is None else failed
            if failed is not None:
                name = case.get("name", "")
                output = tail(failed.text or failed.get("message") or "")
                outcome.failures.append(
                    Failure(name, output, self.again(name), name.partition("[")[0])
                )
            elif case.find("skipped") is not None:
                outcome.skipped += 1
            else:
                outcome.passed += 1
        return outcome

    def again(self, test: str) -> str:
        where = shlex.quote(f"{self.name}::{test}" if test else self.name)
        if test and not self.name.endswith(".py"):  # a folder
            where = f"{self.name} -k {shlex.quote(test)}"
        return f"PYTHONPATH=build/python build/venv/bin/python -m pytest {where}"
