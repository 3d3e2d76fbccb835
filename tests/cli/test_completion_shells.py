"""Completion in zsh and fish themselves: what they offer for what a user has typed so far."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import PROGRAM, Cluster, wait_until

# Tab lists the matches, and the replaced compadd prints them; Control-X marks the end of a line.
ZSHRC = r"""
PROMPT='ready> '
autoload -Uz compinit && compinit -u -D
source <(lockstep completion zsh)
zstyle ':completion:*' insert-tab false
LISTMAX=10000
compadd() {
  [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }
  local -a offered
  builtin compadd -O offered "$@"
  (($#offered)) && print -rl -- $offered >>$OFFERED
  builtin compadd "$@"
}
end_line() { print -r -- '.' >>$OFFERED; BUFFER= }
zle -N end_line
bindkey '^I' list-choices
bindkey '^X' end_line
"""

Complete = Callable[[str], set[str]]


class Zsh:
    """An interactive zsh at a terminal of its own."""

    def __init__(self, environment: dict[str, str], home: Path, folder: Path) -> None:
        (home / ".zshrc").write_text(ZSHRC)
        self._offered = home / "offered"
        self._offered.touch()
        self._terminal, side = pty.openpty()
        self._shell = subprocess.Popen(
            ["zsh", "-d", "-i"],
            stdin=side,
            stdout=side,
            stderr=side,
            env={**environment, "ZDOTDIR": str(home), "OFFERED": str(self._offered)},
            cwd=folder,
            start_new_session=True,
        )
        os.close(side)
        os.set_blocking(self._terminal, False)
        self._output = b""
        wait_until("zsh is ready", lambda: b"ready> " in self._read())

    def complete(self, line: str) -> set[str]:
        self._offered.write_text("")
        os.write(self._terminal, line.encode() + b"\t\x18")
        wait_until(
            f"zsh has completed '{line}'", lambda: self._read() and self._lines()[-1:] == ["."]
        )
        return set(self._lines()[:-1])

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)

    def _lines(self) -> list[str]:
        return self._offered.read_text().splitlines()

    def _read(self) -> bytes:
        """All output so far; the shell would block if it was not read."""
        try:
            while words := os.read(self._terminal, 1 << 16):
                self._output += words
        except OSError:  # nothing more now, or the shell is gone
            pass
        return self._output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder in which the user types."""
    folder = tmp_path / "work"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "run.yaml").touch()
    return folder


@pytest.fixture(params=["zsh", "fish"])
def complete(
    request: pytest.FixtureRequest, idle: Cluster, folder: Path, tmp_path: Path
) -> Iterator[Complete]:
    environment = {
        **idle.environment,
        "PATH": f"{PROGRAM.parent}:{idle.environment['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "xterm",
    }

    def by_fish(line: str) -> set[str]:
        script = f"lockstep completion fish | source; complete --do-complete '{line}'"
        offered = subprocess.run(
            ["fish", "--no-config", "-c", script],
            env=environment,
            cwd=folder,
            text=True,
            capture_output=True,
            timeout=60,
            check=True,
        )
        assert offered.stderr == ""
        return {words.split("\t")[0].rstrip("/") for words in offered.stdout.splitlines()}

    if request.param == "fish":
        yield by_fish
        return
    shell = Zsh(environment, tmp_path, folder)
    yield shell.complete
    shell.close()


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert complete("lockstep re") == {"release", "report", "resume"}
    assert {"run", "ps", "logs", "help"} <= complete("lockstep ")
    assert "agent" not in complete("lockstep ")
    assert complete("lockstep run --hang") == {"--hang-after"}
    assert {"--json", "--state"} <= complete("lockstep ps -")
    assert complete("lockstep ps --state run") == {"running"}
    assert complete("lockstep completion z") == {"zsh"}
    assert complete("lockstep help exit") == {"exit-codes"}
    assert complete("lockstep run --timeout ") == set()


def test_files_are_completed_where_files_are_meant(complete: Complete) -> None:
    assert complete("lockstep run run") == {"run.yaml"}
    assert complete("lockstep serve --map ") == {"run.yaml", "checkpoints"}
    assert complete("lockstep run --checkpoint-folder ") == {"checkpoints"}
    assert complete("lockstep run -n 2 -- python r") == {"run.yaml"}


def test_runs_are_completed_and_no_daemon_is_started_for_that(
    complete: Complete, idle: Cluster
) -> None:
    assert complete("lockstep show ") == set()
    assert not idle.home.exists()
    idle.serve()
    for project in ("default", "default", "demo"):
        idle.ended(idle.submit("--project", project, "--", "true"))
    assert complete("lockstep show ") == {"default/1", "default/2", "demo/1"}
    assert complete("lockstep stop demo/1 de") == {"default/1", "default/2", "demo/1"}
    assert complete("lockstep logs 2") == {"2"}


def test_hosts_and_programs_are_completed(complete: Complete, idle: Cluster) -> None:
    actions = {
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
    assert complete("lockstep host ") == actions
    idle.serve()
    hosts = complete("lockstep host cordon ")
    assert len(hosts) == 2 and all(host.endswith(("-0", "-1")) for host in hosts)
    assert "python3" in complete("lockstep run -- pytho")
