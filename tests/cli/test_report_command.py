"""`lockstep report`: the reports of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cluster

TEXT = "# Findings\n\n```chart\nmetric: loss\nruns: default/1\n```\n"


def test_a_file_is_a_report_that_is_shown_replaced_and_removed(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "findings.md"
    file.write_text(TEXT)
    said = cluster.ok("report", "save", str(file))
    number = said.split()[1]
    assert said == f"report {number} of default: findings\n"
    assert cluster.ok("report", "show", number) == TEXT
    file.write_text("shorter")
    cluster.ok("report", "save", str(file), "--id", number, "--name", "short")
    cluster.ok("report", "save", str(file), "--id", number)
    shown = json.loads(cluster.ok("report", "show", number, "--json"))
    assert (shown["name"], shown["text"]) == ("short", "shorter"), "the name stays"
    assert ["default", "short"] in [
        line.split()[1:3] for line in cluster.ok("report", "ls").splitlines()
    ]
    assert cluster.ok("report", "rm", number) == f"removed report {number}: short\n"
    assert cluster.command("report", "show", number).returncode != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "findings"), "'findings' is no number of a report; `lockstep report ls` lists"),
        (("show",), "report show: write the number of the report"),
        (("save",), "report save: name a file in Markdown"),
        (("save", "/nowhere.md"), "/nowhere.md"),
        (("print", "1"), "there is no action 'print': write one of ls|show|save|rm"),
    ],
)
def test_a_wrong_call_says_what_to_write(
    cluster: Cluster, words: tuple[str, ...], message: str
) -> None:
    ended = cluster.command("report", *words)
    assert ended.returncode != 0
    assert message in ended.stderr


def test_a_report_of_a_project_that_does_not_exist_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "findings.md"
    file.write_text(TEXT)
    ended = cluster.command("report", "save", str(file), "--project", "nowhere")
    assert ended.returncode != 0
    assert "there is no project nowhere; `lockstep project ls` lists them" in ended.stderr
    assert "nowhere" not in cluster.ok("report", "ls")
