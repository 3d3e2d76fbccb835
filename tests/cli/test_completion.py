"""Shell completion: bash with the words of a real command line, and the form of all scripts.
test_completion_shells.py asks zsh and fish.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster

COMPLETE = """
PATH={folder}:$PATH
source <(lockstep completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_lockstep
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(cluster: Cluster, *words: str, **options: Path) -> set[str]:
    """The completions that bash offers for the last of the words."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE.format(folder=PROGRAM.parent), "bash", "lockstep", *words],
        env=cluster.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
        **options,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands_and_options(idle: Cluster) -> None:
    assert completed(idle, "re") == {"release", "report", "resume"}
    assert completed(idle, "host", "dr") == {"drain"}
    assert {"run", "ps", "logs", "help"} <= completed(idle, "")
    assert "agent" not in completed(idle, "")
    assert completed(idle, "run", "--hang") == {"--hang-after"}
    assert {"--json", "--state"} <= completed(idle, "ps", "-")
    assert completed(idle, "ps", "--state", "run") == {"running"}
    assert completed(idle, "completion", "z") == {"zsh"}
    assert completed(idle, "help", "exit") == {"exit-codes"}
    assert completed(idle, "run", "--timeout", "") == set()


def test_bash_completes_files_where_files_are_meant(idle: Cluster, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    (tmp_path / "checkpoints").mkdir()
    assert completed(idle, "run", "run", cwd=tmp_path) == {"run.yaml"}
    assert completed(idle, "serve", "--map", "", cwd=tmp_path) == {"run.yaml", "checkpoints"}
    assert completed(idle, "run", "--checkpoint-folder", "", cwd=tmp_path) == {"checkpoints"}
    assert completed(idle, "run", "-n", "2", "--", "python", "r", cwd=tmp_path) == {"run.yaml"}


def test_runs_are_completed_and_no_daemon_is_started_for_that(idle: Cluster) -> None:
    assert completed(idle, "show", "") == set()
    assert not idle.home.exists()
    idle.serve()
    for project in ("default", "default", "demo"):
        idle.ended(idle.submit("--project", project, "--", "true"))
    assert completed(idle, "show", "") == {"default/1", "default/2", "demo/1"}
    assert completed(idle, "stop", "demo/1", "de") == {"default/1", "default/2", "demo/1"}
    assert completed(idle, "logs", "2") == {"2"}


def test_hosts_and_programs_are_completed(idle: Cluster, tmp_path: Path) -> None:
    assert completed(idle, "host", "cordon", "") == set()
    idle.serve()
    hosts = completed(idle, "host", "cordon", "")
    assert len(hosts) == 2 and all(host.endswith(("-0", "-1")) for host in hosts)
    assert completed(idle, "host", "") == {
        "ls",
        "cordon",
        "drain",
        "release",
        "label",
        "dead",
        "add",
        "rm",
        "inventory",
        "token",
        "join",
        "serve",
    }
    (tmp_path / "pythonic").touch()
    offered = completed(idle, "run", "-n", "2", "--", "pytho", cwd=tmp_path)
    assert {"pythonic", "python3"} <= offered
    assert completed(idle, "run", "--", "python3", "pytho", cwd=tmp_path) == {"pythonic"}


@pytest.mark.parametrize(("shell", "parse"), [("bash", "-n"), ("zsh", "-n"), ("fish", "-n")])
def test_scripts_are_well_formed(idle: Cluster, tmp_path: Path, shell: str, parse: str) -> None:
    script = idle.ok("completion", shell)
    for part in ("resume", "hang-after", "complete-runs", "exit-codes", "timed_out"):
        assert part in script
    assert script.replace("\\'", "").count("'") % 2 == 0
    file = tmp_path / "script"
    file.write_text(script)
    subprocess.run([shell, parse, str(file)], timeout=PATIENCE, check=True)
