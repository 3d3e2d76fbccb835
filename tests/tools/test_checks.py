"""The checks beside the tests: generated files, clang-tidy's choice, and the runner."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tests.tools.scripts import script  # noqa: E402

import run_tests  # noqa: E402
import test_plan  # noqa: E402
from test_programs import Check, Failure, Outcome, Program  # noqa: E402


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_generated_file_that_its_program_would_write_otherwise_is_shown_and_fixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generated = script("check_generated")
    table = {"docs/made.txt": ["echo", "new"]}
    write(tmp_path, "docs/made.txt", "old\n")
    assert generated.check(table, tmp_path, fix=False) == 1
    shown = capsys.readouterr().out
    assert "docs/made.txt: is not what its program prints" in shown
    assert "-old\n+new" in shown
    assert "run ./dev generate" in shown
    assert generated.check(table, tmp_path, fix=True) == 1
    assert (tmp_path / "docs/made.txt").read_text() == "new\n"
    assert generated.check(table, tmp_path, fix=False) == 0


def test_a_generator_that_fails_or_is_not_built_ends_the_check(tmp_path: Path) -> None:
    generated = script("check_generated")
    with pytest.raises(SystemExit, match="false: ended with status 1"):
        generated.check({"made.txt": ["false"]}, tmp_path, fix=False)
    with pytest.raises(SystemExit, match="No such file or directory; run"):
        generated.check({"made.txt": [str(tmp_path / "absent")]}, tmp_path, fix=False)


def test_clang_tidy_looks_at_the_newest_changes_and_sees_headers_through_a_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tidy = script("check_tidy")
    write(tmp_path, "src/a.cc", '#include "a.h"\n')
    write(tmp_path, "src/b.cc", '#include "b.h"\n')
    write(tmp_path, "src/c.cc", "")
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    monkeypatch.setattr(tidy, "SOURCES_MAX", 2)
    monkeypatch.setattr(
        tidy, "changed_last", lambda: ["README.md", "src/b.h", "src/b.cc", "src/a.h"]
    )
    assert tidy.newest(["src/a.cc", "src/b.cc", "src/c.cc"]) == ["src/b.cc", "src/a.cc"]


class Fake(Program):
    def __init__(self, name: str, order: list[str]) -> None:
        self.name = name
        self.order = order

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        self.order.append(self.name)
        return Outcome(passed=1)


class FakeBuild(test_plan.CheckedBuild):
    def __init__(self, programs: list[Program], outcome: Outcome) -> None:
        super().__init__("build fake", [])
        self.made = programs
        self.outcome = outcome

    def programs(self) -> list[Program]:
        return self.made

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        return self.outcome


def run(chosen: list[Program], behind: list[Program]) -> Iterable[tuple[Program, Outcome]]:
    return run_tests.Runner([]).run([(each, None) for each in chosen], behind)


@pytest.fixture(autouse=True)
def _logs_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("test_programs.LOGS", tmp_path / "logs")


def test_the_tests_of_a_build_follow_it_and_what_measures_time_comes_last() -> None:
    order: list[str] = []
    build = FakeBuild([Fake("asan base_test", order)], Outcome(passed=1))
    ended = run([Fake("comm_torch_test", order), Fake("base_test", order)], [build])
    assert len(list(ended)) == 4
    assert sorted(order[:2]) == ["asan base_test", "base_test"]
    assert order[2:] == ["comm_torch_test"]


def test_the_tests_of_a_build_that_failed_are_not_run() -> None:
    order: list[str] = []
    build = FakeBuild([Fake("asan base_test", order)], Outcome(failures=[Failure("", "", "")]))
    assert [program.name for program, _ in run([], [build])] == ["build fake"]
    assert order == []


class Failing(Program):
    """Its first runs fail, in a test that has a name, or in none."""

    def __init__(self, name: str, runs: int, test: str) -> None:
        self.name = name
        self.runs = runs
        self.test = test

    def execute(self, only: str | None, log: Path, scratch: Path) -> Outcome:
        self.runs -= 1
        if self.runs < 0:
            return Outcome(passed=1)
        return Outcome(passed=1, failures=[Failure(self.test, "", "", self.test)])


def ending(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], programs: list[Program]
) -> tuple[int, str]:
    monkeypatch.setattr(run_tests, "plan", lambda _: ([(each, None) for each in programs], []))
    status = run_tests.main(["--check", "asan"])
    return status, capsys.readouterr().out.splitlines()[-1]


def test_a_failed_test_that_passes_alone_is_flaky_and_one_that_fails_again_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flaky, broken = Failing("net_test", 1, "Link.Waits"), Failing("comm_test", 2, "Ring.IsFull")
    assert ending(monkeypatch, capsys, [flaky]) == (0, "1 passed, 0 failed, 1 flaky")
    assert ending(monkeypatch, capsys, [broken]) == (1, "1 passed, 1 failed")


def test_a_crash_and_many_failed_tests_are_failures_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crash = Failing("net_test", 1, "")
    assert ending(monkeypatch, capsys, [crash]) == (1, "1 passed, 1 failed")
    many: list[Program] = [Failing(f"test_{number}", 1, "Link.Waits") for number in range(4)]
    assert ending(monkeypatch, capsys, many) == (1, "4 passed, 4 failed")


def plan(*words: str) -> tuple[list[str], list[str]]:
    chosen, behind = run_tests.plan(run_tests.parse(list(words)))
    return [program.name for program, _ in chosen], [program.name for program in behind]


def test_the_whole_test_command_has_the_builds_with_sanitizers_and_the_short_ones_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_tests, "google_tests", lambda whole_run: [Check("base_test", [])])
    everything, behind = plan()
    assert behind == ["check tidy", "build asan", "build tsan"]
    assert plan("--quick") == (everything, [])
    assert plan("base") == (["base_test"], [])
    assert plan("--check", "tsan", "net") == ([], ["build tsan"])
    assert plan("--check", "clang") == ([], ["build asan", "build clang"])
    assert plan("--check", "tidy") == (["check tidy"], [])
    assert plan("--check", "fuzz", "--seconds", "3") == ([], ["build fuzz"])
    assert plan("--check", "upgrade") == ([], ["build of the last release"])


def test_a_whole_run_leaves_programs_that_only_the_sanitizers_run_to_their_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sanitized = ["tests/net_test", "tests/sim_test", "tests/text_test"]
    listed = {
        "all": ["src/all", "bin/lockstep"],
        "src/all": [*sanitized, "tests/train_test"],
        "sanitized": sanitized,
    }

    def ninja(folder: Path, tool: str, target: str) -> str:
        return "\n".join(
            [f"{target}:", "  input: phony", *(f"    {each}" for each in listed[target])]
        )

    monkeypatch.setattr(test_plan, "ninja", ninja)
    monkeypatch.setattr(test_plan, "LEFT_OUT", {"sim_test": "Seeds.*"})
    monkeypatch.setattr(test_plan, "PARTS", {})
    kept = ["net_test", "sim_test", "train_test"]
    assert [each.name for each in test_plan.google_tests(whole_run=True)] == kept
    assert len(test_plan.google_tests(whole_run=False)) == 4
    compiled = ["bin/lockstep", *(f"tests/{name}" for name in kept)]
    assert test_plan.targets_of_whole_run() == compiled
