"""tools/check_format on a tiny checkout: the finding of each formatter fails it, and is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"good.cc": "int one() { return 1; }\n", "good.py": "one = 1\n"}


def checkout(folder: Path, files: dict[str, str]) -> Path:
    """A repository with the formatters' settings, the script, and these files."""
    for path in ("tools/check_format", ".clang-format", "pyproject.toml"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    (folder / "build").mkdir()
    (folder / "build/venv").symlink_to(ROOT / "build/venv")
    for name, text in files.items():
        (folder / name).write_text(text)
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)
    return folder


def check(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "tools/check_format", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_what_is_formatted_passes(tmp_path: Path) -> None:
    ended = check(checkout(tmp_path, GOOD))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text"), [("bad.cc", "int  two( ) {return 2;}\n"), ("bad.py", "two  =  2\n")]
)
def test_one_source_that_is_not_formatted_fails_and_is_named(
    tmp_path: Path, name: str, text: str
) -> None:
    folder = checkout(tmp_path, GOOD | {name: text})
    ended = check(folder)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [f"{name}:1: is not formatted", "run ./dev format"]
    assert check(folder, "--fix").returncode == 0
    assert check(folder).returncode == 0
