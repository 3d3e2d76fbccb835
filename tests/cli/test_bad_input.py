"""Bad input is refused in one line with the thing and the remedy, and nothing is half done: no
daemon is started for a spec that is wrong, and no run is submitted.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD, PATIENCE, PROGRAM, Cluster

WRONG_INPUT = 2


def refused(cluster: Cluster, *words: str, code: int = WRONG_INPUT) -> str:
    """The one line that a refused command prints."""
    done = cluster.command(*words)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stdout == "", (done.stdout, done.stderr)
    return done.stderr


def refused_file(cluster: Cluster, file: Path, content: str | bytes) -> str:
    """The same for `lockstep run FILE`, which must not start a daemon."""
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    line = refused(cluster, "run", "--detach", str(file))
    assert not (cluster.home / "daemon.json").exists(), "a daemon was started for a wrong file"
    return line


FILES = {
    "unknown field": ("name: x\nnodez: 2\ncommand: [echo]\n", ["run.yaml:2:", "'nodes'"]),
    "wrong type": ("command: [echo]\nnodes: two\n", ["run.yaml:2:", "an integer", '"two"']),
    "word that reads as no text": ("command: [echo, true]\n", ["run.yaml:1:", '"true"']),
    "tab": ("command: [echo]\nenv:\n\tA: b\n", ["run.yaml:3:", "tab"]),
    "empty": ("", ["is empty", "command: [python"]),
    "only a comment": ("# later\n", ["is empty"]),
    "list": ("- echo\n- hello\n", ["run.yaml:1:", "named fields"]),
    "no command": ("name: x\n", ["names no command", "command: [python"]),
    "command as text": ("command: echo hello\n", ["run.yaml:1:", "list", "command: [python"]),
    "empty command": ("command: []\n", ["run.yaml:1:", "names no program"]),
    "field twice": ("name: x\nname: y\ncommand: [echo]\n", ["run.yaml:2:", "'name'", "twice"]),
    "negative retries": ("command: [echo]\nretries: -1\n", ["run.yaml:2:", "retries", "-1"]),
    "no time": ("command: [echo]\ntimeout: 0s\n", ["run.yaml:2:", "timeout", "0s"]),
    "negative time": ("command: [echo]\ntimeout: -5m\n", ["run.yaml:2:", "timeout", "-5m"]),
    "absurd time": ("command: [echo]\ntimeout: 9999999d\n", ["run.yaml:2:", "at most 365d"]),
    "time without unit": ("command: [echo]\ntimeout: 30\n", ["run.yaml:2:", "timeout", "1h 30m"]),
    "name of a path": ("name: a/b\ncommand: [echo]\n", ["run.yaml:1:", "name", "/"]),
    "missing folder": (
        "command: [echo]\nworking_folder: /does/not/exist\n",
        ["working_folder", "/does/not/exist", "does not exist"],
    ),
    "unclosed list": ("command: [echo\nnodes: 2\n", ["run.yaml:2:", "not YAML"]),
    "huge": ("# " + "a" * (5 << 20), ["run.yaml", "larger than"]),
    "binary": (b"\x7fELF\x00\x01\x02\x00", ["run.yaml", "not a text file"]),
}


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_run_file_is_named_with_its_line(idle: Cluster, tmp_path: Path, case: str) -> None:
    content, expected = FILES[case]
    line = refused_file(idle, tmp_path / "run.yaml", content)
    assert all(words in line for words in expected), line


def test_a_run_file_that_is_none_is_named(idle: Cluster, tmp_path: Path) -> None:
    assert "there is no file" in refused(idle, "run", str(tmp_path / "missing.yaml"))
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    assert "folder.yaml is not a file" in refused(idle, "run", str(folder))
    assert "takes no arguments" in refused(idle, "run", "run.yaml", "extra")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--timeout", "0s", "--", "true"), ["timeout", "0s"]),
        (("--timeout", "-5m", "--", "true"), ["--timeout", "-5m", "30m"]),
        (("--timeout", "9999999d", "--", "true"), ["timeout", "365d"]),
        (("--hang-after", "soon", "--", "true"), ["--hang-after", "soon"]),
        (("--retries", "-1", "--", "true"), ["--retries", "-1"]),
        (("--nodes", "two", "--", "true"), ["--nodes", "whole number", "two"]),
        (("--nodes", "0", "--", "true"), ["--nodes", "from 1", "0"]),
        (("--name", "a/b", "--", "true"), ["name", "/"]),
        (("--project", "a/b", "--", "true"), ["project", "a/b"]),
        (("--env", "NOT_SET", "--", "true"), ["NOT_SET", "NAME=VALUE"]),
        (("--", "no-such-program"), ["no program 'no-such-program' in PATH"]),
        (("--", "./missing"), ["there is no", "missing"]),
        (("--", "./plain"), ["./plain is not executable", "chmod +x"]),
        (("--", "plain"), ["no program 'plain' in PATH", "./plain"]),
        (("--", "/tmp"), ["/tmp is a folder"]),
        (("--", ""), ["names no program"]),
        (("--name", "a\u202eb", "--", "true"), ["name", "direction"]),
        (("--env", "A B=1", "--", "true"), ["env: 'A B' is not the name"]),
        (("--replace-backend", "mpi", "--", "true"), ["--replace-backend", "'mpi'", "gloo,nccl"]),
        ((), ["nothing to run", "lockstep run --"]),
    ],
)
def test_a_wrong_run_is_refused_before_a_daemon_is_started(
    idle: Cluster, tmp_path: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    done = idle.command("run", *words, cwd=tmp_path)
    assert done.returncode == WRONG_INPUT
    assert done.stderr.count("\n") == 1, done.stderr
    assert all(part in done.stderr for part in expected), done.stderr
    assert not (idle.home / "daemon.json").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("shwo",), ["'shwo'", "'show'", "lockstep help"]),
        (("ps", "--jsno"), ["--jsno", "'--json'", "lockstep help ps"]),
        (("ps", "extra"), ["'extra'", "lockstep help ps"]),
        (("ps", "--state", "nonsense"), ["nonsense", "queued"]),
        (("ps", "--limit", "0"), ["--limit", "from 1 to 1000"]),
        (("show",), ["show: name a run, such as demo/42;", "lockstep help show"]),
        (("run", "--nodse", "2", "--", "true"), ["run: there is no option '--nodse'", "'--nodes'"]),
        (("run", "--nodse=2", "--", "true"), ["there is no option '--nodse'", "'--nodes'"]),
        (("stop", "1", "--resaon", "why"), ["stop: there is no option '--resaon'", "'--reason'"]),
        (("run", "python", "train.py", "--epochs", "3"), ["'--epochs'", "come after --"]),
        (("run", "-n", "1", "-n", "2", "--", "true"), ["--nodes is given more than once"]),
        (("run", "--detach", "--plan", "--", "true"), ["cannot be used together"]),
        (("ps", "--limit"), ["--limit needs a value"]),
        (("priority", "1", "high"), ["lockstep: priority: expected a whole number"]),
        (("host", "frob"), ["there is no action 'frob'"]),
        (
            ("host",),
            ["host: action is required: ls|cordon|drain|release|dead|label|add|rm|inventory|"],
        ),
        (("kill", "1"), ["--rank is required"]),
        (("priority", "1"), ["priority: N is required"]),
        (("limits", "--user", "bob", "--devices", "0"), ["user 'bob'", "--yes"]),
        (("show", "nonsense"), ["nonsense", "demo/42"]),
        (("logs", "1", "--tail", "-3"), ["--tail", "-3"]),
        (("logs", "1", "--rank", "x"), ["--rank", "whole number"]),
        (("kill", "1", "--rank", "-1"), ["--rank", "-1"]),
        (("help", "shwo"), ["shwo", "'show'"]),
        (("completion", "tcsh"), ["tcsh", "bash, zsh or fish"]),
        (("serve", "--port", "99999"), ["--port", "65535"]),
        (("serve", "--hosts", "2by2", "--detach"), ["2by2", "2x2"]),
        (("serve", "--map", "/missing.yaml", "--detach"), ["/missing.yaml"]),
        (("serve", "--stop"), ["no daemon is running"]),
    ],
)
def test_wrong_usage_starts_no_daemon(
    idle: Cluster, words: tuple[str, ...], expected: list[str]
) -> None:
    line = refused(idle, *words)
    assert all(part in line for part in expected), line
    assert not (idle.home / "daemon.json").exists()


def test_what_no_run_or_rank_has_is_refused(cluster: Cluster) -> None:
    assert "default/99" in refused(cluster, "show", "99")
    assert "nope/1" in refused(cluster, "logs", "nope/1")
    run = cluster.submit("-g", "2", "--", "true")
    cluster.ended(run)
    for words in (("logs", run), ("metrics", run), ("plot", run), ("kill", run)):
        assert "its ranks are 0 to 1" in refused(cluster, *words, "--rank", "2")
    for command in ("metrics", "plot"):
        assert "its nodes are 0 to 0" in refused(cluster, command, run, "--node", "1")
        assert "cannot be used together" in refused(
            cluster, command, run, "--node", "0", "--rank", "0"
        )
    assert "no metric 'loss'" in refused(cluster, "plot", run)
    assert "no telemetry 'loss'" in refused(cluster, "plot", run, "--node", "0")
    assert "of the project 'nope'" in cluster.ok("ps", "--project", "nope")


def test_more_than_the_map_holds_is_refused_saying_what_it_holds(cluster: Cluster) -> None:
    for words in (("-n", "3"), ("-g", "3")):
        line = refused(cluster, "run", *words, "--", "true")
        assert "2 hosts" in line and "lockstep map" in line
    assert json.loads(cluster.ok("ps", "--json"))["runs"] == []


def test_a_port_or_an_address_that_cannot_be_had_is_named(idle: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words in (("--port", port), ("--port", port, "--detach")):
            line = refused(idle, "serve", *words)
            assert port in line and "--port" in line and line.count("lockstep: ") == 1, line
    assert "--listen" in refused(idle, "serve", "--listen", "192.0.2.1", "--detach")


MAP = """
pods:
  - leaves:
      - hosts:
          - {id: near, address: 127.0.0.1, islands: [{devices: [{kind: core, count: 2}]}]}
          - {id: far, ADDRESS islands: [{devices: [{kind: core, first: 2}]}]}
"""


def test_a_map_of_other_machines_is_refused_and_one_of_this_machine_served(
    idle: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    for address, where in (("address: 192.0.2.1,", "192.0.2.1"), ("", "far")):
        file.write_text(MAP.replace("ADDRESS", address))
        for words in (("--detach",), ()):
            line = refused(idle, "serve", "--map", str(file), *words)
            assert "'far'" in line and f"is at {where}," in line and "127.0.0.1" in line, line
    file.write_text(MAP.replace("ADDRESS", "address: 127.0.0.1,"))
    idle.ok("serve", "--map", str(file), "--detach")
    run = idle.submit("-n", "2", "--", "true")
    assert idle.ended(run)["state"] == "succeeded"


@pytest.mark.parametrize("kind", ["a file", "below a file", "not writable", "too long"])
def test_a_home_that_can_be_none_is_named(idle: Cluster, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    homes = {
        "a file": file,
        "below a file": file / "home",
        "not writable": Path("/proc/lockstep"),
        "too long": tmp_path / ("a" * 300),
    }
    idle.environment["LOCKSTEP_HOME"] = str(homes[kind])
    for words in (("ps",), ("serve", "--detach"), ("serve",)):
        assert "LOCKSTEP_HOME" in refused(idle, *words)


def test_a_store_of_a_newer_lockstep_is_left_alone(idle: Cluster) -> None:
    idle.serve()
    idle.ok("serve", "--stop")
    store = idle.home / "lockstep.db"
    python = BUILD / "venv" / "bin" / "python"
    newer = (
        "import sqlite3, sys\n"
        "with sqlite3.connect(sys.argv[1]) as store:\n"
        "    store.execute('update schema_version set version = 999')\n"
    )
    subprocess.run([python, "-c", newer, store], check=True, timeout=PATIENCE)
    before = store.read_bytes()
    assert "newer Lockstep" in refused(idle, "ps")
    assert store.read_bytes() == before


def in_small_file_system(cluster: Cluster, size: str, script: str) -> str:
    """The output of the script in its own name space, its home on a file system of this size."""
    options = f"-o size={size},mode=700"
    mount = f'mkdir -p "$LOCKSTEP_HOME" && mount -t tmpfs {options} none "$LOCKSTEP_HOME"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mount} && {script}"],
        env={**cluster.environment, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


def test_words_that_are_not_utf8_are_refused(idle: Cluster, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    assert "'<FF><FE>') is not UTF-8" in refused(idle, "run", "--", "echo", odd)
    said = refused(idle, "run", "--env", f"A=secret{odd}", "--", "true")
    assert "('A=...') is not UTF-8" in said and "secret" not in said
    idle.environment["TMPDIR"] = f"/tmp/{odd}"
    assert "env: the value of TMPDIR is not UTF-8" in refused(idle, "run", "--", "true")
    del idle.environment["TMPDIR"]
    folder = tmp_path / odd
    folder.mkdir()
    done = idle.command("run", "--", "true", cwd=folder)
    assert done.returncode == WRONG_INPUT and "working_folder: " in done.stderr, done.stderr
    assert not (idle.home / "daemon.json").exists()


def test_a_limit_that_is_not_there_cannot_be_lifted(cluster: Cluster) -> None:
    assert "'nobody' has no limit" in refused(cluster, "limits", "--user", "nobody", "--lift")
    assert "nobody" in cluster.ok("limits", "--user", "nobody", "--devices", "0", "--yes")
    cluster.ok("limits", "--user", "nobody", "--lift")


def test_presented_hosts_have_what_the_machine_has(cluster: Cluster) -> None:
    for words in (("--cores", "10000"), ("--memory", "100TiB"), ("--device-memory", "1GiB")):
        assert "needs" in refused(cluster, "run", *words, "--", "true"), words
    assert cluster.ended(cluster.submit("--memory", "1MiB", "--", "true"))["state"] == "succeeded"


def test_too_few_open_files_are_named(idle: Cluster) -> None:
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 32; exec {PROGRAM} serve --detach"],
        env=idle.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0 and "ulimit -n" in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_named(idle: Cluster) -> None:
    said = in_small_file_system(idle, "16k", "lockstep ps; echo code $?")
    assert "code 1" in said, said
    assert "No space left" in said or "full" in said, said


def test_a_broken_locale_harms_nothing(cluster: Cluster) -> None:
    cluster.environment["LC_ALL"] = "xx_XX.nonsense"
    cluster.environment["LANG"] = "C"
    run = cluster.submit("--", "printf", "gr\\303\\266\\303\\237er \\377\n")
    cluster.ended(run)
    assert "größer" in cluster.ok("logs", run)
    assert cluster.command("map").returncode == 0
