"""Starting and stopping the daemon during other events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster, reserved_port, wait_until


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


def test_stopping_ends_who_holds_the_folder_whatever_its_file_says(idle: Cluster) -> None:
    idle.serve("1x1")
    daemon = idle.daemon_pid()
    file = idle.home / "daemon.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        file.write_text(json.dumps({**json.loads(file.read_text()), "pid": stranger.pid}))
        assert f"process {daemon}" in idle.ok("serve", "--stop")
        stranger.communicate(b"\n", timeout=PATIENCE)
    assert stranger.returncode == 0
    assert not file.exists()  # the daemon took it along


def test_who_looks_for_a_daemon_keeps_none_from_starting(idle: Cluster) -> None:
    idle.serve("1x1")
    idle.ok("serve", "--stop")
    lookers = [start(idle, "serve", "--stop") for _ in range(20)]
    server = start(idle, "serve", "--hosts", "1x1", "--detach")
    said = "".join(filter(None, server.communicate(timeout=PATIENCE)))
    found = "".join(looker.communicate(timeout=PATIENCE)[0] or "" for looker in lookers)
    # It started, as the first did, or one of them found it before it served and ended it.
    served = (idle.home / "daemon.log").read_text().count(": serving ")
    assert served == 2 or "stopped the daemon" in found, said
    if not (idle.home / "daemon.json").exists():
        idle.serve("1x1")


def test_the_second_interrupt_leaves_at_once_and_says_how_to_come_back(cluster: Cluster) -> None:
    run = cluster.submit("--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    cluster.running_ranks(run)
    for words in (("logs", "-f", run), ("watch", run), ("stop", "--wait", run)):
        with start(cluster, *words) as follower:
            assert follower.stdout is not None and follower.stderr is not None
            if words[0] == "stop":
                wait_until("it is told to stop", lambda: "draining" in cluster.ok("show", run))
            else:
                assert follower.stdout.readline()
            ended = interrupted_while_the_daemon_hangs(cluster, follower)
            said = follower.stderr.read()
        if words[0] == "stop":
            assert ended == 130 and "no longer waiting" in said, said
        else:
            assert ended == 0 and f"`lockstep logs -f {run}`" in said, said


def test_a_command_that_waits_for_the_daemon_says_so(cluster: Cluster) -> None:
    os.kill(cluster.daemon_pid(), signal.SIGSTOP)
    try:
        with start(cluster, "ps") as command:
            assert command.stdout is not None and command.stderr is not None
            said = command.stderr.readline()
            os.kill(cluster.daemon_pid(), signal.SIGCONT)
            assert command.wait(timeout=PATIENCE) == 0
            assert command.stdout.read().startswith("no runs")
    finally:
        os.kill(cluster.daemon_pid(), signal.SIGCONT)
    url = f"http://127.0.0.1:{cluster.daemon_port()}"
    assert said == f"waiting for the daemon at {url} to answer\n"


def interrupted_while_the_daemon_hangs(
    cluster: Cluster, follower: subprocess.Popen[str]
) -> int | None:
    """The exit code; None if it has not ended after five seconds of interrupts."""
    os.kill(cluster.daemon_pid(), signal.SIGSTOP)
    try:
        wait_until("it waits for an answer", lambda: is_waiting_for(follower.pid))
        deadline = time.monotonic() + 5
        while follower.poll() is None and time.monotonic() < deadline:
            follower.send_signal(signal.SIGINT)
            time.sleep(0.05)  # two at once would be one
        return follower.poll()
    finally:
        os.kill(cluster.daemon_pid(), signal.SIGCONT)


def is_waiting_for(pid: int) -> bool:
    """True if it sleeps, waiting for an answer to its request."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


ON_LOOPBACK_ALONE = """
import fcntl, socket, struct, subprocess, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    up = struct.pack("16sh", b"lo", 1)
    fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS, IFF_UP
for words in (["serve", "--listen", "0.0.0.0", "--insecure", "--detach"], ["serve", "--stop"]):
    subprocess.run([sys.argv[1], *words], check=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_an_address_that_others_reach_without_encryption_is_warned_of(idle: Cluster) -> None:
    """In a separate network without other processes."""
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", ON_LOOPBACK_ALONE, str(PROGRAM)],
        env=idle.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "0.0.0.0 can be reached from other machines" in done.stderr
    assert "can be reached from other machines" in (idle.home / "daemon.log").read_text()


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
    with reserved_port() as port:
        idle.serve("2x3")
        idle.ok("serve", "--stop")
        idle.serve("2x3", "--port", str(port))
        idle.kill_daemon()
        hosts = json.loads(idle.ok("map", "--json"))["pods"][0]["leaves"][0]["hosts"]
        assert len(hosts) == 2
        assert idle.daemon_port() == port
