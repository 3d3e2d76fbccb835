"""Help, the exit codes in it, and the agreement of the guide with the program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.conftest import PATIENCE, PROGRAM, ROOT, Cluster

COMMANDS_PAGE = ROOT / "docs" / "guide" / "commands.md"
SETTINGS_PAGE = ROOT / "docs" / "design" / "settings.md"
RUN_FILE_PAGE = ROOT / "docs" / "guide" / "run-file.md"


def said(*words: str) -> str:
    return subprocess.run(
        [str(PROGRAM), *words], text=True, capture_output=True, timeout=PATIENCE, check=True
    ).stdout


def commands() -> list[str]:
    """The commands of the overview: two blanks, a name, a description."""
    overview = said("help").split("A first run")[0]
    return re.findall(r"^  ([a-z0-9]+)  +[A-Z]", overview, re.MULTILINE)


def test_lockstep_alone_shows_the_commands_by_what_they_are_for() -> None:
    overview = said()
    assert overview == said("help") == said("--help")
    for title in (
        "Runs",
        "Inspecting runs",
        "The daemon",
        "The machine",
        "A first run",
        "Where to go on",
    ):
        assert f"\n{title}\n" in overview
    assert {"run", "resume", "ps", "logs", "serve", "completion"} <= set(commands())
    assert max(len(line) for line in overview.splitlines()) <= 88


@pytest.mark.parametrize("command", commands())
def test_each_command_has_help_with_an_example_that_it_takes(command: str) -> None:
    page = said("help", command)
    assert page == said(command, "--help")
    assert max(len(line) for line in page.splitlines()) <= 100
    examples = [line for line in page.splitlines() if line.startswith(f"  lockstep {command} ")]
    assert "Example" in page and examples
    for example in examples:
        options = re.findall(r"(?<= )(--[a-z-]+|-[a-z])\b", example.split(" -- ")[0])
        assert all(
            f"{option} " in page or f"{option}\n" in page or f"{option}," in page
            for option in options
        ), example
        assert shlex.split(example)


def table_rows(text: str) -> dict[str, str]:
    """The rows of a Markdown table with a code or a name in its first column."""
    rows = re.findall(r"^\| `?([\w.-]+)`? \| (.+?) \|(?: |$)", text, re.MULTILINE)
    return {name: meaning.replace("\\|", "|") for name, meaning in rows}


def test_the_exit_codes_of_the_guide_are_those_of_the_program() -> None:
    told = dict(re.findall(r"^ *(\d+)  (.+)$", said("help", "exit-codes"), re.MULTILINE))
    assert {"0", "1", "2", "3", "124", "130", "141"} == set(told)
    section = COMMANDS_PAGE.read_text().split("## Exit codes")[1]
    rows = table_rows(section)
    rows.pop("code")
    assert rows == told


def test_the_settings_of_the_documentation_are_those_of_the_program() -> None:
    told = re.findall(r"^  (\w+) +(\w+) +(.+)$", said("help", "settings"), re.MULTILINE)
    page = SETTINGS_PAGE.read_text().split("## Fixed margins")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \|$", page, re.MULTILINE)
    assert told and rows == told


def test_the_guide_has_each_command_with_its_options() -> None:
    page = COMMANDS_PAGE.read_text()
    for command in commands():
        sections = re.findall(
            rf"^### `lockstep {command}\b.*?(?=^##)", page, re.MULTILINE | re.DOTALL
        )
        assert sections, f"commands.md says nothing of {command}"
        told = "".join(sections)
        options = {
            option
            for option in re.findall(
                r"^  (?:-\w, )?(--[a-z-]+)", said("help", command), re.MULTILINE
            )
            if option != "--help"
        }
        missing = {option for option in options if option not in told}
        assert not missing, f"commands.md does not tell of {command} {missing}"


def described(cluster: Cluster) -> dict[str, Any]:
    """The daemon's own description of its messages."""
    url = json.loads((cluster.home / "daemon.json").read_text())["url"]
    token = (cluster.home / "token").read_text().strip()
    ask = Request(f"{url}/api/openapi.json", headers={"Authorization": f"Bearer {token}"})
    with urlopen(ask, timeout=PATIENCE) as answer:
        return dict(json.load(answer))


def test_the_guide_to_run_files_has_each_field_with_its_meaning(cluster: Cluster) -> None:
    schemas = described(cluster)["components"]["schemas"]
    spec = schemas["SubmitRequest"]["properties"]["spec"]["properties"]
    told = table_rows(RUN_FILE_PAGE.read_text())
    told.pop("field")
    told.pop("---", None)
    assert set(told) == set(spec)
    for name, field in spec.items():
        assert told[name].startswith(field["description"]), name


def test_each_field_of_a_run_is_an_option_with_the_same_meaning(cluster: Cluster) -> None:
    schemas = described(cluster)["components"]["schemas"]
    spec = schemas["SubmitRequest"]["properties"]["spec"]["properties"]
    others = {
        *("command", "env", "secrets", "needs", "remainder", "working_folder", "upload"),
        "kubernetes",
    }
    named = {
        "stays": "--stay",
        "kind": "--device-kind",
        "mounts": "--mount",
        "labels": "--constraint",
    }
    sections = ("slurm",)  # of one engine: the name is part of the option's
    shown = " ".join(said("help", "run").split())
    fields = {
        name: field
        for name, field in {**spec, **spec["needs"]["properties"]}.items()
        if name not in others and name not in sections
    }
    for section in sections:
        for name, field in spec[section]["anyOf"][0]["properties"].items():
            fields[f"{section}-{name.removesuffix('s') if name == 'options' else name}"] = field
    for name, field in fields.items():
        option = named.get(name, "--" + name.replace("_", "-"))
        assert re.search(rf"{option} [A-Z\[]*.*{re.escape(field['description'])}", shown), name
