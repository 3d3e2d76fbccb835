"""The output of ./dev before it sets anything up, and how its tests and benchmarks are counted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import bench  # noqa: E402
import bench_picture  # noqa: E402
import test_plan  # noqa: E402
from test_programs import Check, GoogleTest, Outcome, PytestFile  # noqa: E402


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "dev", *arguments], capture_output=True, text=True, check=False, timeout=30
    )


def test_dev_alone_lists_every_command() -> None:
    shown = dev()
    assert shown.returncode == 0
    for command in (
        "build",
        "test",
        "demo",
        "bench",
        "check",
        "gpu",
        "format",
        "--kill-rank",
        "--json FILE",
    ):
        assert command in shown.stdout


def test_an_unknown_command_is_refused_with_the_way_to_the_known_ones() -> None:
    ended = dev("buidl")
    assert ended.returncode == 2
    assert ended.stderr == "dev: there is no command 'buidl'; ./dev help lists what there is\n"


def test_a_check_that_there_is_not_is_refused_before_anything_is_set_up() -> None:
    for words in (["valgrind"], [], ["tidy", "--some"], ["clang", "net"], ["torch"]):
        ended = dev("check", *words)
        assert ended.returncode == 2
        assert ended.stderr.startswith(
            "dev: check wants asan, tsan, clang, tidy, fuzz, upgrade, hosts, launchers, kubernetes "
            "or torch VERSION;"
        )


def step_sh(folder: Path, *lines: str) -> list[str]:
    """The output, into a pipe, of a script that takes steps in this folder."""
    (folder / "build" / "logs").mkdir(parents=True)
    shown = subprocess.run(
        [
            "bash",
            "-c",
            "\n".join(["set -euo pipefail", f"source {ROOT}/tools/dev/step.sh", *lines]),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        cwd=folder,
    )
    return shown.stdout.splitlines()


def test_a_step_tells_a_pipe_how_far_it_is_and_what_is_left(tmp_path: Path) -> None:
    told = step_sh(
        tmp_path,
        "compiles() { echo '[50/200] a.cc'; while [[ $SECONDS -lt 3 ]]; do sleep 0.1; done; }",
        "plan_steps 1",
        "step compile Compiling compiles",
    )
    assert re.fullmatch(r"\[1/1\] Compiling \.\.\. 25 %, [23] s, about [69] s left", told[0])
    assert re.fullmatch(r"\[1/1\] Compiling \.\.\. done in [345] s", told[-1])


def test_a_step_knows_from_its_log_how_far_it_is(tmp_path: Path) -> None:
    (tmp_path / "ninja").write_text("[1/230] a.cc\n[115/230] b.cc\nwarning\n")
    apt = ["0 upgraded, 2 newly installed, 0 to remove", "Get:1 a", "Get:2 b", "Unpacking a"]
    (tmp_path / "apt").write_text("\n".join(apt))
    (tmp_path / "empty").write_text("")
    assert step_sh(
        tmp_path,
        "percent_of compile ninja",
        "percent_of packages apt",
        "echo nothing: $(percent_of compile empty) $(percent_of packages empty)",
        "about 89",
        "about 600",
    ) == ["50", "50", "nothing:", "about 89 s", "about 10 min"]


def program(folder: Path, *lines: str) -> GoogleTest:
    """A program that behaves like a gtest program; $report is where its report belongs."""
    path = folder / "fake_test"
    path.write_text("\n".join(["#!/bin/sh", "report=${1#--gtest_output=json:}", *lines, ""]))
    path.chmod(0o755)
    return GoogleTest("fake_test", path)


def run(program: Check | GoogleTest | PytestFile, folder: Path) -> Outcome:
    return program.execute(None, folder / "log", folder)


REPORT = {
    "testsuites": [
        {
            "testsuite": [
                {"name": "IsFull", "classname": "Ring", "status": "RUN", "result": "COMPLETED"},
                {"name": "IsSlow", "classname": "Ring", "status": "RUN", "result": "SKIPPED"},
                {"name": "IsOff", "classname": "Ring", "status": "NOTRUN", "result": "SUPPRESSED"},
                {
                    "name": "IsEmpty",
                    "classname": "Ring",
                    "status": "RUN",
                    "result": "COMPLETED",
                    "failures": [{"failure": "1 is not 2"}],
                },
            ]
        }
    ]
}


def test_a_gtest_report_gives_the_counts_and_each_failure_its_own_output(tmp_path: Path) -> None:
    output = "[ RUN      ] Ring.IsFull\nfine\n[ RUN      ] Ring.IsEmpty\n1 is not 2\n"
    (tmp_path / "output").write_text(output)
    (tmp_path / "given").write_text(json.dumps(REPORT))
    fake = program(tmp_path, f"cat {tmp_path}/output; cp {tmp_path}/given $report; exit 1")
    outcome = run(fake, tmp_path)
    assert (outcome.passed, outcome.skipped) == (1, 1)
    [failure] = outcome.failures
    assert failure.output == "[ RUN      ] Ring.IsEmpty\n1 is not 2"
    assert failure.again.endswith("fake_test --gtest_filter=Ring.IsEmpty")


def test_a_gtest_program_that_dies_fails_in_the_test_that_it_was_in(tmp_path: Path) -> None:
    output = (
        "[ RUN      ] Ring.IsFull\n[       OK ] Ring.IsFull (0 ms)\n[ RUN      ] Ring.IsEmpty\n"
    )
    (tmp_path / "output").write_text(output)
    outcome = run(program(tmp_path, f"cat {tmp_path}/output; kill -SEGV $$"), tmp_path)
    assert outcome.passed == 1
    assert [each.name for each in outcome.failures] == ["Ring.IsEmpty was killed by SIGSEGV"]


def test_a_sanitizers_report_is_shown_from_its_beginning(tmp_path: Path) -> None:
    report = ["=" * 18, "WARNING: ThreadSanitizer: data race (pid=1)", *["    #0 frame"] * 100]
    (tmp_path / "output").write_text("\n".join(["[ RUN      ] Ring.IsFull", "fine", *report]))
    outcome = run(program(tmp_path, f"cat {tmp_path}/output; exit 66"), tmp_path)
    [failure] = outcome.failures
    assert failure.name == "Ring.IsFull ended with status 66"
    assert failure.output.splitlines()[0] == report[1]


def test_a_gtest_program_that_fails_without_a_failed_test_is_a_failure(tmp_path: Path) -> None:
    outcome = run(program(tmp_path, "exit 3"), tmp_path)
    assert [each.name for each in outcome.failures] == ["fake_test ended with status 3"]


def test_a_long_gtest_program_runs_in_parts_and_a_test_of_it_as_a_whole(tmp_path: Path) -> None:
    script = tmp_path / "sim_test"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "${{GTEST_SHARD_INDEX-whole}} of ${{GTEST_TOTAL_SHARDS-1}}" >> {tmp_path}/calls\n'
        f"echo '{json.dumps(REPORT)}' > ${{1#--gtest_output=json:}}\n"
    )
    script.chmod(0o755)
    programs = test_plan.parts_of(script)
    assert [program.name for program in programs] == ["sim_test 1 of 2", "sim_test 2 of 2"]
    outcomes = [part.execute(None, tmp_path / "log", tmp_path) for part in programs]
    assert all(outcome.passed for outcome in outcomes)
    programs[1].execute("Ring.IsFull", tmp_path / "log", tmp_path)
    assert (tmp_path / "calls").read_text().splitlines() == ["0 of 2", "1 of 2", "whole of 1"]


def test_a_gtest_program_without_tests_is_a_failure(tmp_path: Path) -> None:
    outcome = run(program(tmp_path, "echo '{\"testsuites\": []}' > $report"), tmp_path)
    assert [each.name for each in outcome.failures] == ["fake_test holds no test"]


def is_dead(process: Path) -> bool:
    """True if it is gone, or a zombie that no process has waited for."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition: Callable[[], bool], patience: float = 10.0) -> bool:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def test_a_program_that_hangs_is_stopped_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("test_programs.SECONDS_MAX", 2)
    outcome = run(program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait"), tmp_path)
    assert [each.name for each in outcome.failures] == ["fake_test was stopped after 2 s"]
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}")
    assert wait_until(lambda: is_dead(child)), "the child of the stopped program lives"


def test_a_program_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    outcome = run(Check("check nothing", [str(tmp_path / "absent")]), tmp_path)
    assert "cannot be started: No such file or directory" in outcome.failures[0].output


def test_a_pytest_file_gives_its_counts(tmp_path: Path) -> None:
    file = tmp_path / "test_three.py"
    file.write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "@pytest.mark.skip\n"
        "def test_late(): pass\n"
    )
    outcome = run(PytestFile(str(file)), tmp_path)
    assert (outcome.passed, outcome.skipped) == (1, 1)
    [failure] = outcome.failures
    assert failure.name == "test_bad"
    assert "assert 1 == 2" in failure.output


def test_the_files_of_a_folder_that_share_a_boot_run_as_one_program(tmp_path: Path) -> None:
    names = [program.name for program in test_plan.pytest_files()]
    assert names.count("tests/hosts") == 1 and "tests/tools/test_dev.py" in names
    assert not any(name.startswith("tests/hosts/") for name in names)
    (tmp_path / "test_bad.py").write_text("def test_bad(): assert False\n")
    [failure] = run(PytestFile(str(tmp_path)), tmp_path).failures
    assert failure.again.endswith(f"{tmp_path} -k test_bad")


def test_a_pytest_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text("import absent_module\n")
    outcome = run(PytestFile(str(file)), tmp_path)
    assert outcome.passed == 0
    assert len(outcome.failures) == 1


def test_a_benchmark_line_that_lacks_a_field_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="lacks unit, ours"):
        bench.parse('{"bench": "b", "case": "c"}')
    with pytest.raises(ValueError, match="is not a JSON object"):
        bench.parse("warming up")


def test_a_benchmark_row_may_be_of_a_peer_alone() -> None:
    row = bench.parse('{"bench": "b", "case": "c", "unit": "s", "peer": 2, "peer_name": "gloo"}')
    assert bench.columns(row) == ["c", "-", "2.00 gloo", "-", "-", "", ""]


def test_a_benchmark_row_shows_parameters_ratio_and_whether_the_bar_is_met() -> None:
    row = {"bench": "b", "case": "sum", "ranks": 4, "unit": "GB/s", "ours": 2.5}
    assert bench.columns(row) == ["sum ranks=4", "2.50 GB/s", "-", "-", "-", "", ""]
    row |= {"peer": 2, "peer_name": "gloo", "ratio": 1.25, "of_limit": 0.5, "bar": 1.5}
    assert bench.columns(row)[2:] == ["2.00 gloo", "1.25", "50 %", "BELOW 1.50", ""]


def test_the_picture_has_a_panel_for_each_case_and_a_line_for_each_contestant() -> None:
    row = {"case": "all_reduce", "ranks": 2, "bytes": 1000, "unit": "us", "ours": 1.0}
    rows = [
        row | {"path": "zero-copy", "open_mpi": 4.0},
        row | {"path": "staged", "bytes": 2000},
        row | {"path": "staged", "ranks": 4, "hosts": 2},
        row | {"case": "not of bytes", "unit": "ns", "path": "staged"},
    ]
    assert bench_picture.lines_of(rows) == {
        "all_reduce, 2 ranks": {
            "zero-copy": {1000: 1.0},
            "open_mpi": {1000: 0.25},
            "staged": {2000: 2.0},
        },
        "all_reduce, 4 ranks, 2 hosts": {"staged": {1000: 1.0}},
    }


def test_a_benchmark_row_shows_its_further_readings_apart_from_its_parameters() -> None:
    row = {"bench": "b", "case": "sum", "bytes": 8, "unit": "us", "ours": 1, "mpich": 12.345}
    shown = bench.columns(row)
    assert (shown[0], shown[-1]) == ("sum bytes=8", "mpich=12.3")


def test_every_benchmark_has_a_name_of_its_own_and_says_in_one_sentence_what_it_measures() -> None:
    programs = list((bench.ROOT / "bench").glob("[a-z]*/[a-z]*.py"))
    assert len(bench.benchmarks()) == len(programs) > 20
    for program in programs:
        assert bench.summary(program).endswith("."), program


def test_a_benchmark_finds_the_modules_that_all_share_and_those_of_its_folder() -> None:
    searched = bench.search_path(bench.benchmarks()["train"]).split(os.pathsep)
    assert [Path(each).name for each in searched] == ["python", "bench", "train"]
