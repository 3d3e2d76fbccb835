"""The value of a secret reaches the ranks of runs that name it, and nothing else."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest
from tests.api.calls import ask
from tests.api.test_openapi import routes

from tests.conftest import Cluster

VALUE = "correct-horse-battery-staple"
CHECK = 'cd "$FOLDER"; echo "length ${#KEY}"; test "$KEY" = "$(cat expected)" && echo right'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "expected").write_text(VALUE)
    return tmp_path


def set_secret(cluster: Cluster, name: str, value: str) -> None:
    said = cluster.ok("secret", "set", name, "--file", "-", input=value + "\n")
    assert f"set the secret {name}" in said and value not in said


def dump(cluster: Cluster) -> str:
    with sqlite3.connect(f"file:{cluster.home / 'lockstep.db'}?mode=ro", uri=True) as database:
        return "\n".join(database.iterdump())


def command_lines() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_a_value_is_in_the_variables_of_the_ranks_and_in_no_answer_table_log_or_command_line(
    cluster: Cluster, folder: Path
) -> None:
    set_secret(cluster, "api-key", VALUE)
    run = cluster.submit(
        *("--secret", "KEY=api-key", "--env", f"FOLDER={folder}"),
        *("--", "sh", "-c", CHECK + "; while ! test -e stop; do sleep 0.1; done"),
    )
    cluster.running_ranks(run)
    answers = [command_lines()]
    for method, target, operation in routes():
        if method == "GET" and "/attempts/" not in target and operation.get("security") != []:
            answers.append(ask(cluster, method, target).body.decode())
    for words in (("show", run), ("audit",), ("secret", "ls"), ("queue",), ("ps",)):
        answers.append(cluster.ok(*words, "--json"))
    assert "api-key" in "".join(answers)
    (folder / "stop").touch()
    assert cluster.ended(run)["state"] == "succeeded"
    lines = cluster.logs(run)
    assert any(line.endswith(f"length {len(VALUE)}") for line in lines)
    assert any(line.endswith("right") for line in lines)
    answers += [dump(cluster), (cluster.home / "daemon.log").read_text()]
    for answer in answers:
        assert VALUE not in answer
    assert json.loads(cluster.ok("show", run, "--json"))["spec"]["secrets"] == {"KEY": "api-key"}


def test_an_attempt_gets_the_value_of_now(cluster: Cluster, folder: Path) -> None:
    set_secret(cluster, "api-key", "an older value")
    run = cluster.submit(
        *("--secret", "KEY=api-key", "--env", f"FOLDER={folder}", "--", "sh", "-c", CHECK)
    )
    assert cluster.ended(run)["state"] == "failed"
    set_secret(cluster, "api-key", VALUE)
    cluster.ok("resume", run)
    assert cluster.ended(run)["state"] == "succeeded"


def test_a_run_whose_secret_is_gone_is_stopped_with_the_reason(cluster: Cluster) -> None:
    set_secret(cluster, "api-key", VALUE)
    run = cluster.submit("--secret", "KEY=api-key", "--", "false")
    cluster.ended(run)
    cluster.ok("secret", "rm", "api-key")
    cluster.ok("resume", run)
    ended = cluster.wait_for(run, "cancelled")
    assert "has no secret api-key" in ended["reason"]


def test_what_cannot_be_used_is_refused_at_once(cluster: Cluster) -> None:
    set_secret(cluster, "api-key", VALUE)
    for words, reason in (
        (("--secret", "KEY=other"), "has no secret other; set it with `lockstep secret set other"),
        (("--secret", "KEY=api-key", "--env", "KEY=x"), "KEY is in env, too"),
        (("--secret", "LOCKSTEP_LOG=api-key"), "a secret can set"),
        (("--secret", "=api-key"), "write VARIABLE=SECRET"),
        (("--secret", "KEY=a/b"), "the name of a secret"),
    ):
        refused = cluster.command("run", *words, "--", "true")
        assert refused.returncode == 2 and reason in refused.stderr, refused.stderr
    for words, value, reason in (
        (("set", "a/b", "--file", "-"), "x", "the name of a secret"),
        (("set", "empty", "--file", "-"), "", "is empty"),
        (("set", "long", "--file", "-"), "x" * 70_000, "at most 65536 bytes"),
        (("rm", "other"), "", "has no secret other"),
        (("set",), "x", "name the secret"),
    ):
        refused = cluster.command("secret", *words, input=value)
        assert refused.returncode != 0 and reason in refused.stderr, refused.stderr
        assert value == "" or value not in refused.stderr
