"""Errors of users: one line that names the thing and the remedy; nothing is half done."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster


def one_line(cluster: Cluster, *words: str) -> str:
    """The single line that a refused command prints; its exit code must not be 0."""
    done = cluster.command(*words)
    assert done.returncode != 0, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_more_nodes_than_the_map_has_are_refused_naming_the_way(idle: Cluster) -> None:
    idle.serve("1x2")
    assert "--hosts 2x" in one_line(idle, "run", "-n", "2", "--", "true")
    assert json.loads(idle.ok("ps", "--json"))["runs"] == []


def test_more_devices_than_a_host_has_are_refused(cluster: Cluster) -> None:
    assert "2" in one_line(cluster, "run", "-g", "3", "--", "true")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("run", "--timeout", "0s", "--", "true"), "timeout"),
        (("run", "--timeout", "soon", "--", "true"), "soon"),
        (("run", "-n", "0", "--", "true"), "nodes"),
        (("run", "--env", "NOT_SET_ANYWHERE", "--", "true"), "NOT_SET_ANYWHERE"),
        (("run",), "lockstep run"),
        (("shwo", "default/1"), "'show'"),
        (("show",), "name a run"),
        (("ps", "--jsno"), "--jsno"),
        (("show", "default/99"), "default/99"),
        (("logs", "nonsense/"), "nonsense/"),
        (("kill", "default/1", "--rank", "0", "--signal", "NOPE"), "NOPE"),
    ],
)
def test_bad_input_is_named(cluster: Cluster, words: tuple[str, ...], named: str) -> None:
    assert named in one_line(cluster, *words)


def test_a_wrong_field_in_a_run_file_is_named_with_its_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("name: x\nnodez: 2\ncommand: [true]\n")
    line = one_line(cluster, "run", str(file))
    assert f"{file}:2" in line and "'nodes'" in line


def test_a_run_from_a_folder_that_was_removed_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"cd {folder} && rmdir {folder} && {PROGRAM} run -- true"],
        env=cluster.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert "change to another" in done.stderr


def test_without_a_daemon_a_command_starts_one_and_says_so(idle: Cluster) -> None:
    done = idle.command("ps")
    assert done.returncode == 0
    assert "started the daemon" in done.stderr
    assert "started" not in idle.command("ps").stderr


def test_a_second_daemon_on_one_home_is_refused(cluster: Cluster) -> None:
    assert "already" in one_line(cluster, "serve")


def test_secrets_are_printed_nowhere(cluster: Cluster) -> None:
    go = cluster.home / "go"
    script = f"env; until test -e '{go}'; do sleep 0.1; done"
    run = cluster.submit("-n", "2", "--", "sh", "-c", script)
    cluster.running_ranks(run)
    node = cluster.attempt_folder(run) / "node-0"
    launch_file = node / "launch.json"  # goes once the attempt has ended
    assert launch_file.stat().st_mode & 0o077 == 0
    launch = json.loads(launch_file.read_text())
    go.touch()
    cluster.ended(run)
    texts = [
        cluster.ok("logs", run),
        cluster.ok("show", run, "--json"),
        (cluster.home / "daemon.log").read_text(),
    ]
    texts += [path.read_text() for path in node.glob("*.log")]
    for secret in (launch["token"], launch["secret"], (cluster.home / "token").read_text().strip()):
        assert all(secret not in text for text in texts)
    assert (cluster.home / "token").stat().st_mode & 0o077 == 0


def test_the_map_is_printed_as_a_tree(cluster: Cluster) -> None:
    tree = cluster.ok("map")
    assert "2 hosts: 4 shared cores" in tree and tree.count("─ host ") == 2
    written = cluster.home / "written.yaml"
    written.write_text(cluster.ok("map", "--yaml"))
    assert cluster.ok("map", "--file", str(written)) == tree
    broken = cluster.home / "cluster.yaml"
    broken.write_text("cluster: x\npods:\n  - nonsense: 1\n")
    assert "cluster.yaml:" in one_line(cluster, "map", "--file", str(broken))


def test_the_link_between_two_devices_is_told(idle: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    link = "to_leaf: {bandwidth: 10 Gbit/s, latency: 5us}"
    hosts = "".join(
        f"          - {{id: {name}, {link}, islands: [{{devices: [{{kind: core, count: 2}}]}}]}}\n"
        for name in ("a", "b")
    )
    file.write_text(f"pods:\n  - leaves:\n      - hosts:\n{hosts}")
    between = ("map", "--file", str(file), "--between")
    assert idle.ok(*between, "a", "b:1") == "nearest in common: leaf\nlink: 10.0 Gbit/s, 10us\n"
    assert "nearest in common: island\nlink: unknown" in idle.ok(*between, "a:0", "a:1")
    assert "has no device 2" in one_line(idle, *between, "a", "b:2")
    assert "HOST:DEVICE" in one_line(idle, *between, "a", "b:x")
