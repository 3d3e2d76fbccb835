"""Shells on nodes: what users type, with the sshd and the ssh of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster, reserved_port, wait_until

SESSION = "lockstep-shell-test"  # in the environment of ranks


class Shells(Cluster):
    """A daemon with a running run of two nodes, and a user with a home of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home")
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.environment["XDG_CONFIG_HOME"] = str(folder / "config")
        self.environment["HOME"] = str(folder)
        self.serve()
        self.run = self.hold("-n", "2", "--env", f"SESSION={SESSION}")

    def hold(self, *words: str) -> str:
        run = self.submit(*words, "--", "sleep", "1000", cwd=self.work)
        self.wait_for(run, "running")
        return run

    def submit(self, *words: str, **options: object) -> str:
        return self.ok("run", "--detach", *words, **options).strip()

    @property
    def hosts(self) -> Path:
        return self.folder / "config/lockstep/ssh/hosts"

    def config(self) -> list[str]:
        """Arguments of OpenSSH's programs: with the lines that `lockstep ssh --config` prints."""
        file = self.folder / "ssh_config"
        file.write_text(self.ok("ssh", "--config"))
        return ["-F", str(file)]

    def openssh(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            list(words),
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            **options,  # type: ignore[call-overload]
        )
        return done

    def sessions(self) -> list[int]:
        """The sshds and the processes of STUBBORN."""
        return [
            pid
            for pid in self.processes()
            if (words := command_of(pid)) and (words[0].startswith("sshd") or "900" in words)
        ]


# It ignores the end of its terminal and of its connection.
STUBBORN = ("sh", "-c", "trap '' HUP TERM PIPE; echo up; sleep 900")


def command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


@pytest.fixture(scope="module")
def shells() -> Iterator[Shells]:
    with tempfile.TemporaryDirectory(prefix="lockstep-shell-") as folder:
        cluster = Shells(Path(folder))
        yield cluster
        cluster.close()


def test_a_session_has_user_folder_and_environment_of_the_ranks(shells: Shells) -> None:
    words = ("sh", "-c", 'id -u; pwd; echo "$SESSION" "$LOCKSTEP_RUN" "${RANK-none}"')
    lines = shells.ok("exec", f"{shells.run}/1", "--", *words).splitlines()
    assert lines == [str(os.getuid()), str(shells.work), f"{SESSION} {shells.run} none"]


def test_the_exit_code_and_the_output_are_those_of_the_command(shells: Shells) -> None:
    done = shells.command("exec", shells.run, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_arguments_reach_the_command_as_they_are(shells: Shells) -> None:
    odd = ["a b", "*", "$HOME", "it's", '"']
    printed = shells.ok("ssh", shells.run, "--", "printf", "%s\n", *odd).splitlines()
    assert printed == odd


def test_standard_input_is_passed_whole(shells: Shells) -> None:
    bytes_ = os.urandom(3 << 20)
    done = subprocess.run(
        [str(PROGRAM), "exec", shells.run, "--", "cat"],
        env=shells.environment,
        input=bytes_,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == bytes_


def test_a_command_runs_on_all_nodes(shells: Shells) -> None:
    lines = shells.ok("exec", shells.run, "--all", "--", "sh", "-c", 'echo "node $LOCKSTEP_NODE"')
    assert sorted(lines.splitlines()) == ["[0] node 0", "[1] node 1"]
    done = shells.command(
        "exec", shells.run, "--all", "--", "sh", "-c", 'exit "$((LOCKSTEP_NODE * 3))"'
    )
    assert done.returncode == 3


def test_files_and_folders_are_copied_both_ways(shells: Shells) -> None:
    source = shells.folder / "a folder"
    source.mkdir()
    (source / "file: 1").write_text("content")
    shells.ok("cp", "a folder", f"{shells.run}:there", cwd=shells.folder)
    assert (shells.work / "there" / "file: 1").read_text() == "content"
    shells.ok("cp", f"{shells.run}/1:there/file: 1", str(shells.folder / "back"))
    assert (shells.folder / "back").read_text() == "content"
    both = shells.command("cp", "here", "there")
    assert both.returncode == 2
    assert "must be on a node" in both.stderr


def test_ssh_sftp_and_rsync_work_by_the_configuration(shells: Shells) -> None:
    config = shells.config()
    number = shells.run.partition("/")[2]
    for alias, node in ((f"{number}.lockstep", "0"), (f"{number}-1.default.lockstep", "1")):
        done = shells.openssh("ssh", *config, alias, "echo $LOCKSTEP_NODE")
        assert (done.stdout, done.stderr) == (f"{node}\n", "")
    (shells.folder / "sent").write_text("x" * 100_000)
    batch = f"put {shells.folder / 'sent'} by-sftp\n"
    done = shells.openssh("sftp", *config, "-b", "-", alias, input=batch)
    assert done.returncode == 0, done.stderr
    assert (shells.work / "by-sftp").stat().st_size == 100_000
    remote = f"ssh {' '.join(config)}"
    done = shells.openssh("rsync", "-e", remote, str(shells.folder / "sent"), f"{alias}:by-rsync")
    assert done.returncode == 0, done.stderr
    assert (shells.work / "by-rsync").stat().st_size == 100_000


def test_the_lines_of_the_configuration_are_written_once(shells: Shells) -> None:
    file = shells.folder / ".ssh/config"
    file.parent.mkdir()
    file.write_text("Host other\n  User ann\n")
    shells.ok("ssh", "--config", "--write")
    lines = shells.ok("ssh", "--config")
    assert file.read_text() == lines + "\nHost other\n  User ann\n"
    assert "already" in shells.ok("ssh", "--config", "--write")


def test_a_port_of_the_node_is_forwarded(shells: Shells) -> None:
    alias = f"{shells.run.partition('/')[2]}.lockstep"
    with socket.create_server(("127.0.0.1", 0)) as server, reserved_port() as local:
        there = server.getsockname()[1]
        forward = ["ssh", *shells.config(), "-N", "-L", f"127.0.0.1:{local}:127.0.0.1:{there}"]
        with subprocess.Popen([*forward, alias], env=shells.environment) as tunnel:

            def connected() -> socket.socket | None:
                try:
                    return socket.create_connection(("127.0.0.1", local))
                except OSError:
                    return None

            with wait_until("the tunnel is open", connected) as client:
                peer, _ = server.accept()
                with peer:
                    peer.sendall(b"hello")
                    assert client.recv(5) == b"hello"
            tunnel.terminate()


def test_a_certificate_is_for_its_own_attempt_only(shells: Shells) -> None:
    """The one of another run, one of another authority, and one that has ended are refused."""
    other = shells.hold()
    try:
        for run in (shells.run, other):
            shells.ok("exec", run, "--", "true")
        mine, theirs = (f"{run.partition('/')[2]}.lockstep" for run in (shells.run, other))
        file = shells.hosts / f"{mine}.conf"

        def log_in(*options: str) -> subprocess.CompletedProcess[str]:
            return shells.openssh("ssh", "-F", str(file), *options, mine, "true")

        assert log_in().returncode == 0
        stranger = shells.folder / "stranger"
        key = shells.folder / "config/lockstep/ssh/id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", stranger], check=True)
        shutil.copy(f"{key}.pub", shells.folder / "own.pub")
        principal = (
            subprocess.run(
                ["ssh-keygen", "-L", "-f", shells.hosts / f"{mine}-cert.pub"],
                capture_output=True,
                text=True,
                check=True,
            )
            .stdout.split("Principals:")[1]
            .split()[0]
        )
        signed = ["ssh-keygen", "-q", "-I", "x", "-n", principal]
        subprocess.run([*signed, "-s", stranger, shells.folder / "own.pub"], check=True)
        certificates = [shells.hosts / f"{theirs}-cert.pub", shells.folder / "own-cert.pub"]
        ended = shells.folder / "ended.pub"
        shutil.copy(f"{key}.pub", ended)
        authority = shells.home / "ssh/user_authority"
        ends = ["-V", "20200101:20200102"]
        subprocess.run([*signed, *ends, "-s", authority, ended], check=True)
        certificates.append(shells.folder / "ended-cert.pub")
        words = file.read_text()
        for certificate in certificates:
            good = f'"{shells.hosts / f"{mine}-cert.pub"}"'
            file.write_text(words.replace(good, f'"{certificate}"'))
            refused = log_in()
            assert refused.returncode == 255, certificate
            assert "Permission denied (publickey)" in refused.stderr
        file.write_text(words)
        refused = log_in("-o", "PreferredAuthentications=password,keyboard-interactive")
        assert "Permission denied (publickey)" in refused.stderr
    finally:
        shells.ok("stop", other, "--wait")


def test_another_user_has_no_shell(shells: Shells, tmp_path: Path) -> None:
    shells.ok("user", "add", "eve")
    token = tmp_path / "token"
    token.write_text(shells.ok("token", "create", "--user", "eve").splitlines()[-1])
    token.chmod(0o600)
    environment = {
        key: value for key, value in shells.environment.items() if key[:9] != "LOCKSTEP_"
    }
    environment |= {"LOCKSTEP_URL": shells.url(), "LOCKSTEP_TOKEN_FILE": str(token)}
    done = subprocess.run(
        [str(PROGRAM), "exec", shells.run, "--", "true"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert "there is no run" in done.stderr


def test_a_node_without_sshd_is_named(idle: Cluster, tmp_path: Path) -> None:
    idle.environment |= {"LOCKSTEP_SSHD": "/nowhere/sshd", "XDG_CONFIG_HOME": str(tmp_path)}
    idle.serve()
    run = idle.submit("--", "sleep", "1000")
    idle.wait_for(run, "running")
    done = idle.command("ssh", run)
    assert done.returncode == 2
    assert "has no sshd (LOCKSTEP_SSHD is /nowhere/sshd): install openssh-server" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    idle.ok("stop", run, "--wait")
    ended = idle.command("ssh", run)
    assert f"{run} has ended: only a running run has shells" in ended.stderr


def test_sessions_end_with_the_run(shells: Shells) -> None:
    run = shells.hold()
    words = [str(PROGRAM), "exec", run, "--", *STUBBORN]
    with subprocess.Popen(words, env=shells.environment, stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"up\n"
        shells.ok("stop", run, "--wait")
        assert session.wait(timeout=PATIENCE) != 0
    wait_until("nothing of the session is left", lambda: not shells.sessions())


def test_sessions_end_with_a_killed_agent(shells: Shells) -> None:
    run = shells.hold()
    agent = shells.show(run)["attempts"][-1]["nodes"][0]["agent_pid"]
    words = [str(PROGRAM), "exec", run, "--", *STUBBORN]
    with subprocess.Popen(words, env=shells.environment, stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"up\n"
        os.kill(agent, signal.SIGKILL)
        assert session.wait(timeout=PATIENCE) != 0
    shells.ok("stop", run, "--wait")
    wait_until("nothing of the session is left", lambda: not shells.sessions())


def test_a_restarted_daemon_signs_with_the_same_authorities(shells: Shells) -> None:
    authority = (shells.home / "ssh/user_authority.pub").read_text()
    shells.kill_daemon()
    shells.serve()
    assert shells.ok("exec", shells.run, "--", "echo", "back") == "back\n"
    assert (shells.home / "ssh/user_authority.pub").read_text() == authority


def test_the_shell_of_a_debug_run_ends_the_run(shells: Shells) -> None:
    began = time.monotonic()
    done = shells.openssh(
        str(PROGRAM), "run", "--debug", "-g", "1", input="pwd; exit 0\n", cwd=shells.work
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(shells.work)
    assert time.monotonic() - began < 20  # 5 s on a machine that is not busy
    run = done.stderr.split()[1]
    assert shells.ended(run)["state"] == "cancelled"


def test_a_debug_run_without_a_shell_ends(shells: Shells) -> None:
    run = shells.submit("--debug", "--idle", "2s")
    assert shells.ended(run)["state"] == "succeeded"
    assert shells.logs(run)[-1] == "no shell was open for 2s"


JUPYTER = """#!/usr/bin/env python3
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
port = next(int(word.partition("=")[2]) for word in sys.argv if "ServerApp.port=" in word)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        right = self.path == "/api" or self.path.endswith("=" + os.environ["JUPYTER_TOKEN"])
        self.send_response(200 if right else 403)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def test_a_notebook_is_reached_by_its_address(shells: Shells) -> None:
    programs = shells.folder / "programs"
    programs.mkdir()
    (programs / "jupyter-lab").write_text(JUPYTER)
    (programs / "jupyter-lab").chmod(0o755)
    path = f"{programs}:{shells.environment['PATH']}"
    run = shells.hold("--env", f"PATH={path}")
    with subprocess.Popen(
        [str(PROGRAM), "notebook", run],
        env=shells.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as notebook:
        assert notebook.stdout is not None
        url = notebook.stdout.readline().strip()
        with urlopen(url, timeout=PATIENCE) as answer:
            assert answer.status == 200
        notebook.send_signal(signal.SIGINT)
        assert notebook.wait(timeout=PATIENCE) == 0
    shells.ok("stop", run, "--wait")


def test_a_run_without_jupyterlab_has_no_notebook(shells: Shells) -> None:
    done = shells.command("notebook", shells.run)
    assert done.returncode != 0
    assert "pip install jupyterlab" in done.stderr
