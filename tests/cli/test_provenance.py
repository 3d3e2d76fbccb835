"""Runs that repeat another, and what differs between two: diff, compare, fork, tags and notes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.api.calls import ask
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster


def differences(cluster: Cluster, first: str, second: str) -> dict[str, tuple[Any, Any]]:
    report = json.loads(cluster.ok("diff", first, second, "--json"))
    assert (report["first"], report["second"]) == (first, second)
    return {one["field"]: (one["first"], one["second"]) for one in report["differences"]}


def forked(cluster: Cluster, *words: str) -> str:
    return cluster.ok("fork", *words, "--detach").strip()


def command_of(cluster: Cluster, run: str) -> list[str]:
    return list(cluster.show(run)["spec"]["command"])


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("diff", "demo/1"), ["name a run, such as demo/42"]),
        (("diff", "demo/1", "nonsense"), ["nonsense"]),
        (("compare", "demo/1"), ["name 2 to 20 runs"]),
        (("compare", "demo/1", "nonsense"), ["nonsense"]),
        (("fork",), ["name a run, such as demo/42"]),
        (("fork", "nonsense"), ["nonsense"]),
        (("tag", "demo/1"), ["KEY=VALUE is required"]),
        (("tag", "demo/1", "stage"), ["stage: write KEY=VALUE", "KEY-"]),
        (("tag", "demo/1", "stage="), ["KEY- to remove it"]),
        (("note", "demo/1"), ["TEXT is required"]),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    words: tuple[str, ...], parts: list[str], cluster: Cluster
) -> None:
    line = refused(cluster, *words)
    assert all(part in line for part in parts), line


def test_diff_names_what_differs_word_by_word_and_hides_values(cluster: Cluster) -> None:
    first = cluster.submit("--env", "KEY=one", "--", "echo", "--lr", "1e-3", "end")
    second = cluster.submit("-g", "2", "--env", "KEY=two", "--", "echo", "--lr", "3e-4", "end", "x")
    third = cluster.submit("--env", "KEY=one", "--env", "NEW=1", "--", "false")
    for run in (first, second, third):
        cluster.ended(run)
    found = differences(cluster, first, second)
    assert found["command[2]"] == ("1e-3", "3e-4")
    assert found["command[4]"] == (None, "x")
    assert found["devices"] == ("1", "2")
    values = found["env.KEY"]
    assert values[0] != values[1] and all(value.startswith("*** ") for value in values)
    assert "name" not in found and "nodes" not in found and "state" not in found
    other = differences(cluster, first, third)
    assert "env.KEY" not in other, "the values are the same"
    assert other["env.NEW"][0] is None
    assert other["state"] == ("succeeded", "failed")
    assert "exited with code 1" in other["reason"][1]
    table = cluster.ok("diff", first, third)
    assert table.splitlines()[0].split() == ["FIELD", first, third]
    assert "one" not in table.split() and "two" not in table.split()


def test_a_run_does_not_differ_from_itself(cluster: Cluster) -> None:
    run = cluster.submit("--", "true")
    cluster.ended(run)
    assert differences(cluster, run, run) == {}
    assert "have the same specification, origin and results" in cluster.ok("diff", run, run)


def test_a_comparison_has_a_column_for_each_run_and_a_row_for_each_field_that_differs(
    cluster: Cluster,
) -> None:
    runs = [
        cluster.submit("--env", "KEY=one", "--", "echo", "--lr", rate, *more)
        for rate, more in [("1e-3", ()), ("3e-4", ()), ("1e-3", ("end",))]
    ]
    for run in runs:
        cluster.ended(run)
    report = json.loads(cluster.ok("compare", *runs, "--json"))
    assert report["runs"] == runs
    rows = {each["field"]: each["values"] for each in report["differences"]}
    assert rows["command[2]"] == ["1e-3", "3e-4", "1e-3"]
    assert rows["command[3]"] == [None, None, "end"]
    assert "env.KEY" not in rows and "state" not in rows
    table = cluster.ok("compare", *runs).splitlines()
    assert table[0].split() == ["FIELD", *runs]
    csv = cluster.ok("compare", *runs, "--csv").splitlines()
    assert csv[0] == ",".join(["FIELD", *runs])
    assert "command[3],,,end" in csv
    markdown = cluster.ok("compare", *runs, "--markdown").splitlines()
    assert markdown[:2] == [f"| FIELD | {' | '.join(runs)} |", "| --- | --- | --- | --- |"]
    assert "| command[2] | 1e-3 | 3e-4 | 1e-3 |" in markdown


def test_a_fork_has_the_specification_of_the_other_with_its_hidden_values(
    cluster: Cluster,
) -> None:
    first = cluster.submit(
        "-n", "2", "--env", "KEY=precious", "--timeout", "7m", "--", "sh", "-c", "echo $KEY $0"
    )
    second = forked(cluster, first)
    cluster.ended(second)
    assert [line.split()[-2:] for line in cluster.logs(second)] == [["precious", "sh"]] * 2
    found = differences(cluster, first, second)
    assert found["origin.forked_from"] == (None, first)
    assert not [name for name in found if name.startswith(("command", "env", "nodes", "timeout"))]
    assert f"forked from {first}" in cluster.ok("show", second)
    folders = {cluster.show(run)["checkpoint_folder"] for run in (first, second)}
    assert len(folders) == 2


@pytest.mark.parametrize(
    ("setting", "before", "after"),
    [
        ("lr=3e-4", ["--lr", "1e-3", "--n", "2"], ["--lr", "3e-4", "--n", "2"]),
        ("lr=3e-4", ["--lr=1e-3", "--lrs", "2"], ["--lr=3e-4", "--lrs", "2"]),
        ("lr=3e-4", ["opt=sgd", "lr=1e-3"], ["opt=sgd", "lr=3e-4"]),
        ("lr=3e-4", ["+lr=1e-3"], ["+lr=3e-4"]),
        ("lr=-2", ["--lr", "-1"], ["--lr", "-2"]),
        ("fast=no", ["--fast", "--n", "2"], ["--fast=no", "--n", "2"]),
        ("text=a=b c", ["--text", "x"], ["--text", "a=b c"]),
        ("lr=", ["--lr=1"], ["--lr="]),
    ],
)
def test_set_changes_an_argument_in_the_form_that_it_has(
    setting: str, before: list[str], after: list[str], cluster: Cluster
) -> None:
    first = cluster.submit("--", "echo", *before)
    done = cluster.command("fork", first, "--set", setting, "--detach")
    assert done.returncode == 0, done.stderr
    assert command_of(cluster, done.stdout.strip()) == ["echo", *after]
    assert "is added" not in done.stderr


def test_set_adds_an_argument_and_says_so(cluster: Cluster) -> None:
    first = cluster.submit("--", "echo", "lr")
    done = cluster.command("fork", first, "--set", "lr=3e-4", "--detach")
    assert f"the command of {first} does not set lr: --lr=3e-4 is added at its end" in done.stderr
    assert command_of(cluster, done.stdout.strip()) == ["echo", "lr", "--lr=3e-4"]


def test_a_setting_that_is_not_clear_is_refused(cluster: Cluster) -> None:
    first = cluster.submit("--", "echo", "--lr", "1", "--lr=2")
    assert "more than once" in refused(cluster, "fork", first, "--set", "lr=3")
    assert "write KEY=VALUE" in refused(cluster, "fork", first, "--set", "lr")
    assert "write KEY=VALUE" in refused(cluster, "fork", first, "--set", "=3")
    assert len(json.loads(cluster.ok("ps", "--json"))["runs"]) == 1


def test_options_and_a_command_change_the_specification(cluster: Cluster) -> None:
    first = cluster.submit("--after", cluster.submit("--", "sleep", "100"), "--", "true")
    words = ("-n", "2", "--timeout", "9m", "--name", "again", "--env", "X=1", "--", "echo", "hi")
    plan = cluster.ok("fork", first, "--plan", *words)
    assert plan.startswith("2 nodes x 1 device would start at once")
    assert len(json.loads(cluster.ok("ps", "--json"))["runs"]) == 2
    view = json.loads(cluster.ok("fork", first, "--json", *words))
    spec = view["spec"]
    assert (spec["nodes"], spec["name"], spec["command"]) == (2, "again", ["echo", "hi"])
    assert spec["timeout"] == "9m" and spec["env"]["X"] == "***"
    assert spec["after"] == [], "it is no part of what repeats a run"
    cluster.ended(view["id"])
    assert "[1] hi" in cluster.logs(view["id"])


def test_a_fork_is_followed_and_repeated_once_by_its_request_id(cluster: Cluster) -> None:
    first = cluster.submit("--", "sh", "-c", "exit 3")
    done = cluster.command("fork", first, "--request-id", "once")
    assert done.returncode == 1 and "submitted default/2" in done.stderr, done.stderr
    again = cluster.ok("fork", first, "--request-id", "once", "--detach")
    assert again.strip() == "default/2"


def test_a_run_that_is_not_there_is_not_forked(cluster: Cluster) -> None:
    assert "default/7" in refused(cluster, "fork", "7")
    assert json.loads(cluster.ok("ps", "--json"))["runs"] == []


def listed(cluster: Cluster, *words: str) -> list[str]:
    return [run["id"] for run in json.loads(cluster.ok("ps", "--json", *words))["runs"]]


def test_a_list_goes_on_where_its_answer_ended(cluster: Cluster) -> None:
    runs = [cluster.submit("--", "true") for _ in range(5)][::-1]
    found, target = [], "/api/v1/runs?limit=2"
    while target:
        page = ask(cluster, "GET", target).json()
        found.append([run["id"] for run in page["runs"]])
        target = page["next"] and f"/api/v1/runs?limit=2&after={quote(page['next'], safe='')}"
    assert found == [runs[:2], runs[2:4], runs[4:]]
    for wrong in ("x", "1/demo", "1x/demo/1", "/demo/1"):
        answer = ask(cluster, "GET", f"/api/v1/runs?after={quote(wrong, safe='')}")
        assert answer.status == 400
        assert "no `next` of a list" in answer.error()


def test_tags_select_runs_and_survive_the_end_and_the_daemon(cluster: Cluster) -> None:
    first, second, third = (cluster.submit("--", "true") for _ in range(3))
    for run in (first, second, third):
        cluster.ended(run)
    assert cluster.ok("tag", first, "stage=final", "owner=ann") == (
        f"{first} has owner=ann, stage=final\n"
    )
    cluster.ok("tag", second, "stage=a=b c")
    cluster.kill_daemon()
    cluster.serve()
    assert listed(cluster, "--tag", "stage") == [second, first]
    assert listed(cluster, "--tag", "stage=a=b c") == [second]
    assert listed(cluster, "--tag", "stage=other") == listed(cluster, "--tag", "sta") == []
    user = cluster.show(first)["origin"]["user"]
    assert listed(cluster, "--user", user) == [third, second, first]
    assert listed(cluster, "--user", user, "--tag", "stage=final") == [first]
    assert listed(cluster, "--user", "nobody-else") == []
    assert "of the user 'nobody-else'" in cluster.ok("ps", "--user", "nobody-else")
    assert "with the tag sta;" in cluster.ok("ps", "--tag", "sta")
    assert cluster.ok("tag", first, "stage-", "owner=bob") == f"{first} has owner=bob\n"
    assert cluster.show(first)["tags"] == {"owner": "bob"}
    assert "tag         owner=bob\n" in cluster.ok("show", first)
    assert differences(cluster, first, second)["tags.owner"] == ("bob", None)
    assert "owner=bob" in cluster.ok("audit")


def test_a_run_has_one_note(cluster: Cluster) -> None:
    run = cluster.submit("--", "true")
    cluster.ok("note", run, "first")
    assert cluster.ok("note", run, "diverges\nafter 4000") == f"{run} has a note\n"
    assert "note        diverges\nnote        after 4000\n" in cluster.ok("show", run)
    assert "4096" in refused(cluster, "note", run, "n" * 4097)
    assert "control characters" in refused(cluster, "note", run, "\x1b[31m")
    assert cluster.show(run)["note"] == "diverges\nafter 4000"
    assert cluster.ok("note", run, "") == f"{run} has no note\n"
    assert cluster.show(run)["note"] == ""


def test_a_fork_has_no_tags_and_no_note(cluster: Cluster) -> None:
    first = cluster.submit("--", "true")
    cluster.ok("tag", first, "stage=final")
    cluster.ok("note", first, "good")
    view = cluster.show(forked(cluster, first))
    assert (view["tags"], view["note"]) == ({}, "")


def test_uncommitted_changes_and_packages_are_kept_and_repeat_the_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "train.py").write_text("import lockstep\nlockstep.log({'loss': 1.0}, step=1)\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (folder / "train.py").write_text("import lockstep\nlockstep.log({'loss': 2.0}, step=1)\n")
    run = cluster.ok("run", "--detach", "--", "python", "train.py", cwd=folder).strip()
    cluster.ended(run)
    cluster.ok("artifacts", run, "lockstep", "--download", str(tmp_path))
    kept = tmp_path / "lockstep"
    assert "torch==" in (kept / "requirements.txt").read_text()
    described = json.loads((kept / "environment.json").read_text())
    assert described["arguments"] == ["train.py"] and described["python"].startswith("3.")
    subprocess.run([*git, "checkout", "-q", "."], check=True)
    subprocess.run([*git, "apply", str(kept / "code.diff")], check=True)
    assert "2.0" in (folder / "train.py").read_text()
    commands = cluster.ok("show", run, "--repro").splitlines()
    assert commands[0].endswith("python train.py")
    assert commands[1].startswith(f"git -C {folder} checkout ")
    assert "apply $PWD/code.diff" in commands[2] and "requirements.txt" in commands[3]
    assert commands[-1] == f"lockstep fork {run}"
    (folder / "train.py").write_text("")
    bare = cluster.ok("run", "--detach", "--no-diff", "--", "true", cwd=folder).strip()
    cluster.ended(bare)
    said = cluster.ok("show", bare, "--repro")
    assert "they were not kept" in said and "packages are not known" in said
