"""The output of commands on terminals and in files: width, colour, lines that are redrawn."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster

METRICS = (
    "import lockstep\n"
    "for step in range(50): lockstep.log({'loss': 50.0 - step}, step=step)\n"
    "lockstep.progress(step=50, steps=50)\n"
)


def in_terminal(
    cluster: Cluster,
    columns: int,
    *words: str,
    until: str | None = None,
    gate: Path | None = None,
    interrupt: bool = False,
    **environment: str,
) -> str:
    """The output on a terminal of this width. When `until` is there, the gate opens, and Ctrl-C is
    sent if it should be."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [str(PROGRAM), *words],
        env={**cluster.environment, "TERM": "xterm", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal's other end was closed
            break
        said += part
        if until and until.encode() in said:
            if gate:
                gate.touch()
            if interrupt:
                process.send_signal(signal.SIGINT)
                interrupt = False
    os.close(ours)
    assert process.wait(timeout=PATIENCE) == 0, said
    return said.decode()


def without_colour(words: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", words)


@pytest.fixture
def finished(cluster: Cluster) -> str:
    run = cluster.submit("--name", "a rather long name for a run", "--", "python", "-c", METRICS)
    assert cluster.ended(run)["state"] == "succeeded"
    return run


def test_colour_is_for_terminals_that_want_it(cluster: Cluster, finished: str) -> None:
    for words in (("ps",), ("metrics", finished), ("plot", finished)):
        assert "\x1b[" in in_terminal(cluster, 80, *words), words
        assert "\x1b[" not in in_terminal(cluster, 80, *words, NO_COLOR="1"), words
        assert "\x1b[" not in in_terminal(cluster, 80, *words, TERM="dumb"), words
        assert "\x1b" not in cluster.ok(*words), words


def test_a_plot_and_a_progress_line_fit_a_narrow_terminal(
    cluster: Cluster, finished: str, tmp_path: Path
) -> None:
    for columns in (20, 40):
        drawing = without_colour(in_terminal(cluster, columns, "plot", finished)).splitlines()
        assert max(len(line) for line in drawing[:16]) <= columns
    gate = tmp_path / "gate"
    wait = f"import os, time\nwhile not os.path.exists('{gate}'): time.sleep(0.05)\n"
    slow = METRICS.replace("step=50, steps=50)", "step=40, steps=50)\n" + wait)
    run = cluster.submit("--", "python", "-c", slow)
    said = in_terminal(cluster, 20, "watch", run, until="\r\x1b[Kstep ", gate=gate)
    drawn = [part.split("\r")[0] for part in said.split("\r\x1b[K") if part.startswith("step ")]
    assert drawn and max(len(line) for line in drawn) < 20


def test_a_long_wait_shows_that_it_goes_on_and_leaves_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"while ! test -e {gate}; do sleep 0.05; done"
    holder = cluster.submit("-n", "2", "-g", "2", "--", "sh", "-c", wait)
    said = in_terminal(cluster, 80, "run", "--", "true", until="still queued (", gate=gate)
    assert re.search(r"still queued \(\d+s\)", said)
    assert said.rstrip().endswith("exited with code 0")
    cluster.ended(holder)


def test_a_run_with_many_lines_is_printed_bounded_in_memory(cluster: Cluster) -> None:
    run = cluster.submit("--", "python", "-c", "for i in range(300000): print('line', i, 'x' * 80)")
    cluster.ended(run)
    script = f"ulimit -v 400000; '{PROGRAM}' logs {run} | tail -n 1"
    done = subprocess.run(
        ["bash", "-c", script],
        env=cluster.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.startswith("line 299999 ")


BAR = (
    "import os, sys, time\n"
    "def until(name):\n"
    "    while not os.path.exists(name): time.sleep(0.02)\n"
    "print('\\r10% of it', end='', flush=True); until(sys.argv[1])\n"
    "print('\\r100% of it', flush=True)\n"
)


def test_an_unfinished_line_is_live_on_a_terminal_and_gives_way(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    said = in_terminal(
        cluster, 80, "run", "--", "python", "-c", BAR, str(gate), until="10% of it", gate=gate
    )
    assert "\r\x1b[K10% of it\r\x1b[K" in said, said
    assert said.count("100% of it") == 1


def test_an_unfinished_line_goes_beside_the_lines_where_nothing_can_be_drawn_over(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit("--", "python", "-c", BAR, str(gate))
    cluster.running_ranks(run)
    follower = subprocess.Popen(
        [str(PROGRAM), "logs", "-f", run],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stderr is not None
    while "10% of it (unfinished)" not in (line := follower.stderr.readline()):
        assert line, "standard error ended"
    done = cluster.command("logs", run)
    assert done.stdout == "" and done.stderr == "10% of it (unfinished)\n"
    gate.touch()
    lines, _ = follower.communicate(timeout=PATIENCE)
    assert lines == "100% of it\n"
    cluster.ended(run)
    done = cluster.command("logs", run)
    assert (done.stdout, done.stderr) == ("100% of it\n", "")


def test_what_acts_on_a_terminal_is_spelled_out_there_alone(cluster: Cluster) -> None:
    run = cluster.submit("--", "printf", "a\\033]0;title\\007b\\n")
    cluster.ended(run)
    assert in_terminal(cluster, 80, "logs", run) == "a^[]0;title^Gb\r\n"
    assert cluster.ok("logs", run) == "a\x1b]0;title\x07b\n"


def test_a_command_is_shown_as_it_would_be_typed(cluster: Cluster) -> None:
    run = cluster.submit("--name", "n" * 200, "--", "sh", "-c", "echo 'a'\nexit 0", "it's")
    assert cluster.ended(run)["state"] == "succeeded"
    shown = cluster.ok("show", run)
    assert "command     sh -c $'echo \\'a\\'\\nexit 0' 'it'\\''s'\n" in shown, shown
    assert "n" * 40 not in cluster.ok("ps") and "n" * 39 + "…" in cluster.ok("ps")


def test_top_redraws_on_a_screen_of_its_own_until_it_is_interrupted(
    cluster: Cluster, finished: str
) -> None:
    words = cluster.ok("top")
    assert "devices in use" in words and "no run runs" in words
    assert json.loads(cluster.ok("top", "--json"))["runs"] == []
    said = in_terminal(cluster, 80, "top", "--every", "1", until="devices in use", interrupt=True)
    assert said.startswith("\x1b[?1049h") and "\x1b[?1049l" in said
    assert "devices in use" in said
