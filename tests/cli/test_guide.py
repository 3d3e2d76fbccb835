"""docs/guide/start.md stays true: its files are written and its commands typed, in their order, and
each line of output that it shows comes, whatever the numbers in it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.conftest import BUILD, PATIENCE, PROGRAM, ROOT, Cluster

PAGE = ROOT / "docs" / "guide" / "start.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> None:
    """The scripts and run files of the page; a block's first line names its file."""
    for block in blocks("python") + blocks("yaml"):
        (folder / block.split("\n")[0].removeprefix("# ")).write_text(block)
    (folder / "examples").symlink_to(ROOT / "examples")


def commands() -> list[tuple[str, list[str]]]:
    """The typed commands, with the lines that are shown below each."""
    typed: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            typed.append((line.removeprefix("$ "), []))
        elif line != "...":
            typed[-1][1].append(line)
    return typed


def without_numbers(words: str) -> str:
    """Times, counts, columns and paths differ from one day to the next."""
    words = re.sub(r"\d+(\.\d+)?([a-z]+ \d+)?(us|ms|[smh])?\b", "N", words)
    words = re.sub(r"folder is \S+;", "folder is F;", words)
    return re.sub(r" +", " ", words).strip()


def figures(words: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", words)]


def check_figures(line: str, said: str) -> None:
    """Values that do not depend on the day match the page: losses, and how many checkpoints."""
    if not re.match(r"(loss|\[0\] step \d+  loss|checkpoints) ", line):
        return
    alike = without_numbers(line.removesuffix(" ..."))
    found = [one for one in said.splitlines() if without_numbers(one).startswith(alike)]
    wanted = figures(line)
    assert any(
        all(abs(a - b) <= 0.02 * abs(b) + 0.001 for a, b in zip(figures(one), wanted, strict=False))
        for one in found
    ), f"{line}\n{said}"


def test_the_first_guide_does_what_it_says(idle: Cluster, tmp_path: Path) -> None:
    write_files(tmp_path)
    path = f"{PROGRAM.parent}:{BUILD}/venv/bin:{idle.environment['PATH']}"
    assert len(commands()) > 20
    for command, shown in commands():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**idle.environment, "PATH": path},
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        said = without_numbers(done.stdout + "\n" + done.stderr)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
        for line in shown:
            if "mine" in PAGE.read_text().split(command)[0]:  # the page's own script has come
                check_figures(line, done.stdout)
            for part in line.split(" ..."):
                assert without_numbers(part) in said, f"$ {command}\nnot said: {part}\n{said}"
