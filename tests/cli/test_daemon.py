"""Starting and stopping the daemon when something else happens at the same moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from tests.conftest import PATIENCE, PROGRAM, Cluster


def start(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PROGRAM), *words],
        env=cluster.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_commands_that_find_no_daemon_at_once_share_the_one_they_start(idle: Cluster) -> None:
    commands = [start(idle, "ps") for _ in range(5)]
    said = [command.communicate(timeout=PATIENCE)[1] for command in commands]
    assert [command.returncode for command in commands] == [0] * 5, said
    assert sum("started the daemon" in words for words in said) == 1, said


def test_stopping_leaves_alone_who_has_the_number_of_a_daemon_that_was_killed(
    idle: Cluster,
) -> None:
    idle.home.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        file = {"url": "http://127.0.0.1:1", "pid": stranger.pid, "version": "0"}
        (idle.home / "daemon.json").write_text(json.dumps(file))
        stopped = idle.command("serve", "--stop")
        (idle.home / "daemon.json").unlink()
        assert stopped.returncode != 0 and "no daemon is running" in stopped.stderr
        stranger.communicate(b"\n", timeout=PATIENCE)
    assert stranger.returncode == 0


def test_the_daemon_keeps_nothing_of_its_callers_open(idle: Cluster) -> None:
    ours, theirs = os.pipe()
    idle.ok("serve", "--hosts", "1x1", "--detach", pass_fds=(theirs,))
    os.close(theirs)
    assert os.read(ours, 1) == b""
    os.close(ours)


def test_a_command_ends_when_nobody_reads_it(cluster: Cluster) -> None:
    run = cluster.submit("--", "sh", "-c", "while echo line; do sleep 0.05; done")
    with start(cluster, "logs", "-f", run) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "line\n"
        follower.stdout.close()
        assert follower.wait(timeout=PATIENCE) == 141


def test_output_that_could_not_be_written_is_no_success(cluster: Cluster) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(PROGRAM), "ps"],
            env=cluster.environment,
            text=True,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr


def test_a_command_starts_the_daemon_with_the_hosts_that_it_had(idle: Cluster) -> None:
    idle.serve("2x3")
    port = idle.daemon_port()
    idle.ok("serve", "--stop")
    idle.serve("2x3", "--port", str(port))
    os.kill(idle.daemon_pid(), signal.SIGKILL)
    hosts = json.loads(idle.ok("map", "--json"))["pods"][0]["leaves"][0]["hosts"]
    assert len(hosts) == 2
    assert idle.daemon_port() == port
