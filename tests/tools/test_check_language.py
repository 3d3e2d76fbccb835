"""tools/check_language on a tiny checkout: which forms it finds, where, and what it accepts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(folder: Path, name: str, text: str, accepted: str = "") -> list[str]:
    """The findings in a checkout with this one file."""
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/check_language", folder / "tools/check_language")
    (folder / "tools/language-exceptions.txt").write_text(accepted)
    (folder / name).write_text(text)
    for words in (["init", "--quiet"], ["add", name]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)
    ended = subprocess.run(
        [folder / "tools/check_language"], capture_output=True, text=True, check=False, timeout=30
    )
    found = ended.stdout.splitlines()
    assert ended.returncode == (1 if found else 0), ended.stderr
    return found


@pytest.mark.parametrize(
    "line",
    [
        "Of a run that waits: why.",
        "It counts. Who asks first gets it.",
        "Whether it has ended.",
        "Nobody reads it.",
        "The rank who is late.",
        "It is made anew.",
    ],
)
def test_each_banned_form_is_found_in_a_comment(tmp_path: Path, line: str) -> None:
    [found] = check(tmp_path, "a.cc", f"int one = 1;\n// {line}\n")
    assert found.startswith("a.cc:2: ")
    assert found.endswith(line)


def test_plain_english_passes_and_so_does_what_the_program_says(tmp_path: Path) -> None:
    text = '// Why a run waits. It is a rank whose device failed.\nprint("Of all, who? Nobody");\n'
    assert check(tmp_path, "a.cc", text) == []


def test_paragraphs_are_read_and_code_in_them_is_not(tmp_path: Path) -> None:
    [found] = check(tmp_path, "a.md", "`who` is a command.\n\n    who\n\n```\nwho\n```\nBut who?\n")
    assert found.startswith("a.md:8: ")


def test_docstrings_are_read_and_strings_are_not(tmp_path: Path) -> None:
    [found] = check(tmp_path, "a.py", '"""Of a rank: its number."""\nx = "who"  # plain\n')
    assert found.startswith("a.py:1: ")


@pytest.mark.parametrize("accepted", ["# why\na.cc: A thing anew.\n", "a.cc\n"])
def test_a_line_or_a_file_is_accepted_by_the_exceptions(tmp_path: Path, accepted: str) -> None:
    assert check(tmp_path, "a.cc", "// A thing anew.\n", accepted) == []
