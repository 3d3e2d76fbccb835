"""The use of lockstep-sim after a seed has found a broken promise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD, PATIENCE

PROGRAM = BUILD / "bin" / "lockstep-sim"


def sim(*words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(PROGRAM), *words], capture_output=True, timeout=PATIENCE, check=False, **options
    )


@pytest.mark.parametrize("seed", ["1", "7", "1234", "18446744073709551615"])
def test_a_seed_gives_the_same_trace_in_every_process(seed: str, tmp_path: Path) -> None:
    here = sim("--seed", seed)
    elsewhere = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "HOME": str(tmp_path)}
    there = sim("--seed", seed, cwd=tmp_path, env=elsewhere)
    assert here.returncode == 0, here.stdout[-4000:]
    assert here.stdout.count(b"\n") > 200
    assert here.stdout == there.stdout


def test_another_seed_gives_another_world() -> None:
    assert sim("--seed", "1").stdout != sim("--seed", "2").stdout


def test_the_lines_of_one_run_are_part_of_the_whole() -> None:
    whole = sim("--seed", "7").stdout.splitlines()
    part = sim("--seed", "7", "--run", "demo/1").stdout.splitlines()
    assert len(part) < len(whole)
    assert [line for line in whole if line in set(part)] == part
    assert any(b"demo/1 is starting" in line for line in part)
    others = [line for line in part if b"demo/1" not in line]
    assert not any(b"demo/2 is " in line or b"agent demo/2" in line for line in others)


def test_many_seeds_say_how_far_they_are() -> None:
    done = sim("--seeds", "11..30")
    assert done.returncode == 0
    assert done.stdout == b"seeds 11..30: 0 break a promise\n"
    assert done.stderr.splitlines()[-1] == b"20 of 20 seeds, 0 break a promise"
    assert len(done.stderr.splitlines()) == 10


def test_many_seeds_have_a_digest_by_which_two_runs_are_compared() -> None:
    once, again, others = (
        sim("--seeds", seeds, "--digest").stdout.splitlines()[-1]
        for seeds in ("1..5", "1..5", "1..6")
    )
    assert once.startswith(b"digest of their traces: ")
    assert once == again
    assert once != others


@pytest.mark.parametrize("words", [["--seeds", "5..3"], ["--seeds", "x"], ["--seed", "-1"]])
def test_what_is_no_seed_is_refused(words: list[str]) -> None:
    done = sim(*words)
    assert done.returncode not in (0, 1)
    assert words[0].encode() in done.stderr
