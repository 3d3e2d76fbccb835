"""`lockstep sim`: a trace of jobs under a policy, and the plain simulator in Python beside it."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PATIENCE, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "bench/platform"))

from _sched_peer import read_trace, simulate

FIVE_JOBS = "submitted,duration,devices\n0,1000,4\n100,500,8\n200,300,2\n300,2000,2\n400,100,4\n"
TWO_HOSTS = ("--hosts", "2x4", "--pod", "2")


def sim(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), "sim", *map(str, words)],
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def report_of(*words: str | Path) -> dict[str, Any]:
    done = sim("--json", *words)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture
def five_jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(FIVE_JOBS)
    return path


@pytest.fixture
def busy_trace(tmp_path: Path) -> Path:
    """More jobs than four hosts can take at once, in the form of the public trace, unsorted."""
    dice = random.Random(4)
    begin = datetime(2017, 12, 31, 20, 0, 0)
    rows = []
    for _ in range(600):
        submitted = begin + timedelta(seconds=dice.randrange(200_000))
        size = dice.choice([1, 1, 1, 2, 2, 4, 8, 12, 16])
        rows.append(f"{submitted},{dice.randrange(1, 6000)}.5,{size},0,a\n")
    path = tmp_path / "busy.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(rows))
    return path


def test_a_policy_is_tried_on_a_trace(five_jobs: Path) -> None:
    report = report_of("--trace", five_jobs, "--policy", "easy", *TWO_HOSTS)
    assert report["jobs"] == 5
    assert report["makespan_s"] == 3500
    assert report["sum_of_starts_s"] == 0 + 1000 + 200 + 1500 + 500
    assert report["sum_of_ends_s"] == 1000 + 1500 + 500 + 3500 + 600
    assert [part["part"] for part in report["parts"]] == ["whole", "first", "second"]
    assert report["parts"][0]["mean_wait_s"] == (0 + 900 + 0 + 1200 + 100) / 5


def test_people_get_a_table(five_jobs: Path) -> None:
    done = sim("--trace", five_jobs, "--policy", "fifo", *TWO_HOSTS)
    assert done.returncode == 0
    assert done.stdout.startswith("fifo on 2 hosts with 4 devices, 2 a pod: 5 jobs in 58m 20s\n")
    assert "second half" in done.stdout
    assert "idle while a job waits" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_schedules_are_those_of_the_plain_simulator(policy: str, busy_trace: Path) -> None:
    report = report_of("--trace", busy_trace, "--policy", policy, "--hosts", "4x8", "--pod", "2")
    ours = (report["sum_of_starts_s"], report["sum_of_ends_s"], report["sha"])
    assert ours == simulate(read_trace(busy_trace), policy, hosts=4, devices=8, pod=2)
    assert report["parts"][0]["mean_wait_s"] > 1000  # it was busy


def test_only_the_first_jobs_are_replayed_on_demand(five_jobs: Path) -> None:
    assert report_of("--trace", five_jobs, "--jobs", "2", *TWO_HOSTS)["jobs"] == 2
    assert report_of("--trace", five_jobs, "--jobs", "9", *TWO_HOSTS)["jobs"] == 5


@pytest.mark.parametrize("policy", ["fifo", "easy-sjbf", "aged20x72-est"])
def test_the_whole_step_makes_the_schedule_of_the_pass_alone(policy: str, busy_trace: Path) -> None:
    words = ("--trace", busy_trace, "--policy", policy, "--hosts", "4x8", "--pod", "2")
    alone = report_of(*words, "--through", "pass")
    whole = report_of(*words, "--through", "step")
    assert whole == alone | {"through": "step"}


def test_a_half_of_the_trace_is_replayed_by_itself(five_jobs: Path) -> None:
    first = report_of("--trace", five_jobs, "--half", "first", *TWO_HOSTS)
    second = report_of("--trace", five_jobs, "--half", "second", *TWO_HOSTS)
    assert (first["jobs"], second["jobs"]) == (2, 3)
    assert (first["window_s"], second["window_s"]) == (100, 200)
    assert second["parts"][0]["mean_wait_s"] == 0


def test_the_schedule_can_be_kept_and_replayed(five_jobs: Path, tmp_path: Path) -> None:
    schedule, picture = tmp_path / "schedule.csv", tmp_path / "use.svg"
    kept = report_of("--trace", five_jobs, "--policy", "fifo", *TWO_HOSTS)
    sim("--trace", five_jobs, "--policy", "fifo", *TWO_HOSTS, "--schedule", schedule)
    sim("--trace", five_jobs, "--policy", "fifo", *TWO_HOSTS, "--svg", picture)
    lines = schedule.read_text().splitlines()
    assert lines[0] == "line,submitted,duration,devices,started,ended,moves"
    assert lines[2] == "3,100,500,8,1000,1500,0"
    again = report_of("--trace", schedule, "--policy", "fifo", *TWO_HOSTS)
    assert again["sha"] == kept["sha"]
    assert picture.read_text().startswith("<svg ")


def test_the_guide_has_a_trace_and_commands_that_work(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "policies.md").read_text()
    blocks = re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)
    trace, commands = (textwrap.dedent(block) for block in blocks)
    (tmp_path / "jobs.csv").write_text(trace)
    for command in commands.splitlines():
        done = sim(*command.split()[2:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_help_has_every_policy_of_the_guide_and_each_is_taken(five_jobs: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "policies.md").read_text()
    section = guide.split("## The policy")[1].split("## What it says")[0]
    rows = re.findall(r"^\| (`[a-z].*?`) \|", section, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(.+?)`", row)]
    endings = re.findall(r"`(-[a-z]+)`", section)
    page = sim("--help").stdout.split("Policies")[1]
    listed = set(re.findall(r"^  (-?[a-z]\S*)  +\S", page.split("A trace is")[0], re.MULTILINE))
    assert listed == set(names) | set(endings)
    longer = [name + ending for name in ("ours-moves", "aged20") for ending in endings]
    for policy in names + longer:
        assert report_of("--trace", five_jobs, "--policy", policy, *TWO_HOSTS)["jobs"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--trace is required"),
        (("--trace", "/nowhere.csv"), "opening /nowhere.csv: No such file"),
        (("--trace", "{}", "--policy", "fito"), "no policy 'fito', did you mean 'fifo'?"),
        (("--trace", "{}", "--hosts", "2"), "--hosts: '2' is not HOSTSxDEVICES"),
        (("--trace", "{}", "--pod", "0"), "expected a whole number from 1"),
        (("--trace", "{}", "--jobs", "0"), "expected a whole number from 1"),
        (("--trace", "{}", "--half", "third"), "expected first or second, got 'third'"),
        (("--trace", "{}", "--through", "me"), "expected pass or step, got 'me'"),
        (("--trace", "{}", "--hosts", "1x4"), "jobs.csv:3: 8 devices are more than the cluster"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...], said: str, five_jobs: Path
) -> None:
    done = sim(*(word.format(five_jobs) for word in words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(FIVE_JOBS.replace("200,300,2", "200,-300,2"))
    done = sim("--trace", path)
    assert done.returncode == 2
    assert f"{path}:4: column 'duration': '-300' is not a number of seconds" in done.stderr
