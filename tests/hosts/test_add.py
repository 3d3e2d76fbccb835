"""`lockstep host add --no-join` and `rm`: Lockstep onto machines that have SSH and nothing else."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.cluster import REAL_TIMES
from tests.hosts.commands import Commands, make_debian_package
from tests.hosts.host import Host
from tests.hosts.sandbox import descendants, name_of
from tests.hosts.testbed import Testbed

from tests.conftest import PATIENCE, is_alive, wait_until

INSTALLED = "~/.local/bin/lockstep"
COPY = ("host", "add", "--no-join")


@pytest.fixture
def lockstep(testbed: Testbed, hosts: list[Host], tmp_path: Path) -> Iterator[Commands]:
    """No host has Lockstep, before and after."""
    yield Commands(testbed, tmp_path)
    for host in hosts:
        host.as_root("rm -rf /home/ann/.local /usr/local/bin/lockstep /usr/local/lib/lockstep-*")


def added(lockstep: Commands, package: Path, *targets: str) -> dict[str, dict[str, Any]]:
    """The results of `host add --json`, by target."""
    done = lockstep.command(*COPY, *targets, "--package", str(package), "--json")
    return {one["target"]: one for one in json.loads(done.stdout)}


def refusal(lockstep: Commands, package: Path, target: str, *words: str) -> str:
    """The one line with the reason why a host is not added."""
    done = lockstep.command(*COPY, target, "--package", str(package), *words)
    assert done.returncode == 1 and done.stdout == "no host was added\n"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("lockstep: ")]
    assert line.startswith(f"lockstep: {target}: ")
    return line


def test_bare_machines_get_lockstep_and_say_what_they_are(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    found = added(lockstep, package, *(f"ann@{host.name}" for host in hosts))
    for host in hosts:
        report = found[f"ann@{host.name}"]["report"]
        inventory = report["inventory"]
        assert inventory["name"] == host.name and inventory["boot"] == host.boot_id()
        assert inventory["distribution"] == "debian 12" and inventory["users"] == ["ann"]
        (interface,) = inventory["interfaces"]
        assert interface["name"] == "host0" and host.address in interface["addresses"]
        assert "clock_wrong" not in {problem["kind"] for problem in report["problems"]}
    assert hosts[0].run(f"{INSTALLED} --version").startswith("lockstep ")


def test_progress_names_each_host_and_only_hosts_without_the_package_get_a_copy(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    # An older program is replaced.
    hosts[0].run(f"mkdir -p ~/.local/bin; printf 'exit 2' >{INSTALLED}; chmod +x {INSTALLED}")
    lockstep.ok(*COPY, "gpu1", "--package", str(package))
    done = lockstep.command(*COPY, "gpu1", "gpu2", "--package", str(package.parent))
    assert done.returncode == 0, done.stderr
    assert "gpu2: copies " in done.stderr and "gpu1: copies " not in done.stderr
    assert "gpu1: has Lockstep" in done.stderr and "gpu2: has Lockstep" in done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split()[:4] == ["TARGET", "HOST", "SYSTEM", "CORES"]
    assert [row.split()[0] for row in rows[:2]] == ["gpu1", "gpu2"]


def test_root_installs_for_all_users(lockstep: Commands, hosts: list[Host], package: Path) -> None:
    assert added(lockstep, package, "root@gpu2")["root@gpu2"]["error"] is None
    assert hosts[1].run("lockstep --version").startswith("lockstep ")
    lockstep.ok("host", "rm", "root@gpu2")
    assert hosts[1].command("lockstep --version").returncode == 127


def test_root_on_debian_gets_the_debian_package_and_a_user_the_tarball(
    lockstep: Commands, hosts: list[Host], package: Path, tmp_path: Path
) -> None:
    (tmp_path / package.name).symlink_to(package)
    make_debian_package(tmp_path)
    found = added(lockstep, tmp_path, "root@gpu1", "gpu2")
    assert [one["error"] for one in found.values()] == [None, None]
    assert "ii" in hosts[0].run("dpkg -l lockstep | tail -n 1") and hosts[1].run(f"ls {INSTALLED}")
    lockstep.ok("host", "rm", "root@gpu1")
    assert hosts[0].command("lockstep --version").returncode == 127


def test_a_host_that_is_down_does_not_stop_the_others(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    nobody = "ann@10.77.0.99"
    done = lockstep.command(*COPY, nobody, "gpu1", "--package", str(package))
    assert done.returncode == 1
    assert f"lockstep: {nobody}: it is down, or no network leads to it: start it" in done.stderr
    assert [row.split()[0] for row in done.stdout.splitlines()[:2]] == ["TARGET", "gpu1"]


def test_a_host_behind_a_firewall_that_drops_is_given_up_after_the_timeout(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    hosts[2].drop("login")
    try:
        refused = refusal(lockstep, package, "gpu3", "--timeout", "1s")
    finally:
        hosts[2].undrop("login")
    assert "no answer within 1s: check that it is up, or allow more with --timeout" in refused


def test_a_login_that_takes_longer_than_three_seconds_is_no_failure(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    delay = 10 if REAL_TIMES else 3.5
    hosts[1].run(f"sed -i '1i sleep {delay}' ~/.bashrc")
    try:
        found = added(lockstep, package, "gpu2")["gpu2"]
    finally:
        hosts[1].as_root("sed -i 1d /home/ann/.bashrc")
    assert found["error"] is None


def test_ctrl_c_ends_each_ssh(lockstep: Commands, hosts: list[Host], package: Path) -> None:
    hosts[1].drop("login")
    hosts[2].drop("login")
    try:
        adding = lockstep.start(*COPY, "gpu2", "gpu3", "--package", str(package))
        running = wait_until("both wait", lambda: len(found := ssh_of(adding.pid)) == 2 and found)
        adding.send_signal(signal.SIGINT)
        assert adding.wait(timeout=PATIENCE) != 0
        wait_until("none is left", lambda: not any(is_alive(pid) for pid in running))
    finally:
        hosts[1].undrop("login")
        hosts[2].undrop("login")


def ssh_of(pid: int) -> list[int]:
    return [each for each in descendants(pid) if name_of(each) == "ssh"]


def test_a_wrong_and_an_unknown_host_key_are_told_apart(
    lockstep: Commands, testbed: Testbed, hosts: list[Host], package: Path, tmp_path: Path
) -> None:
    known = testbed.keys.known_hosts.read_text().splitlines()
    other_key = known[1].split(" ", 1)[1]  # of gpu2
    wrong = tmp_path / "wrong"
    wrong.write_text(f"gpu1 {other_key}\n")
    lockstep.prefer(f"UserKnownHostsFile {wrong}")
    refused = refusal(lockstep, package, "gpu1")
    assert "its host key is not the one that known_hosts has" in refused
    assert "ssh-keygen -R" in refused
    assert "its host key is not known here: log in once" in refusal(lockstep, package, "gpu2")


def test_a_host_that_wants_a_password_is_told_by_how_to_get_a_key_there(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    hosts[0].run("mv ~/.ssh/authorized_keys ~/.ssh/aside")
    try:
        refused = refusal(lockstep, package, "ann@gpu1")
    finally:
        hosts[0].as_root("mv /home/ann/.ssh/aside /home/ann/.ssh/authorized_keys")
    assert "ssh-copy-id ann@gpu1" in refused


def test_a_full_disk_and_another_architecture_are_refused_before_a_copy(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    with hosts[3].small_disk("/home/ann/.local", mib=8):
        refused = refusal(lockstep, package, "gpu4")
    assert "its disk at /home/ann/.local has 8.0 MiB free" in refused and "make room" in refused
    fake = "/usr/local/bin/uname"
    hosts[3].as_root(f"printf '#!/bin/sh\\necho aarch64\\n' >{fake}; chmod +x {fake}")
    try:
        refused = refusal(lockstep, package, "gpu4")
    finally:
        hosts[3].as_root(f"rm {fake}")
    assert "it is aarch64, and the packages are for x86_64" in refused


def test_a_program_that_does_not_start_there_is_an_error_that_says_why(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    library = hosts[0].run("ls /usr/lib/x86_64-linux-gnu/libhwloc.so.15*").split()[0]
    hosts[0].as_root(f"mv {library} {library}.aside")
    try:
        refused = refusal(lockstep, package, "gpu1")
    finally:
        hosts[0].as_root(f"mv {library}.aside {library}")
    assert "libhwloc" in refused


def test_a_wrong_clock_is_a_problem_of_the_host(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    hosts[0].set_clock(-300)
    try:
        host = added(lockstep, package, "gpu1")["gpu1"]
    finally:
        hosts[0].set_clock(0)
    report = host["report"]
    assert report, host
    (problem,) = [one for one in report["problems"] if one["kind"] == "clock_wrong"]
    assert re.search(r"its clock is (4m 5\ds|5m).* behind", problem["detail"])


def test_a_host_behind_a_jump_host_is_added_though_its_shell_prints_a_greeting(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    far = hosts[3]
    far.run("sed -i '1i echo welcome' ~/.bashrc")
    far.drop("login")
    lockstep.prefer(
        f"Host far\n  HostName {far.address}\n  HostKeyAlias gpu4\n  ProxyJump gpu1\nHost *"
    )
    try:
        found = added(lockstep, package, "far")["far"]
    finally:
        far.undrop("login")
        far.as_root("sed -i 1d /home/ann/.bashrc")
    assert found["error"] is None and found["report"]["inventory"]["name"] == "gpu4"


def test_rm_removes_it_but_not_while_it_runs(
    lockstep: Commands, hosts: list[Host], package: Path
) -> None:
    host = hosts[0]
    lockstep.ok(*COPY, "gpu1", "--package", str(package))
    host.run(f"{INSTALLED} serve --hosts 1x1 --detach")
    refused = lockstep.command("host", "rm", "gpu1")
    assert refused.returncode == 1 and "Lockstep runs there (process" in refused.stderr
    host.run(f"{INSTALLED} serve --stop")
    lockstep.ok("host", "rm", "gpu1")
    assert host.run("ls ~/.local/bin ~/.local/lib").split() == [
        "/home/ann/.local/bin:",
        "/home/ann/.local/lib:",
    ]
    again = lockstep.command("host", "rm", "gpu1")
    assert again.returncode == 1 and "is not installed there by this user" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add",), "name a host as for ssh, such as ann@gpu1"),
        (("add", "gpu1", "gpu1"), "gpu1 is named twice"),
        (("add", "gpu1", "--package", "/etc/passwd"), "is no package of Lockstep"),
        (("add", "gpu1", "--package", "/nowhere"), "there is no /nowhere"),
        (("add", "gpu1", "gpu2", "--as", "a"), "--as names one host"),
        (("rm",), "name a host"),
    ],
)
def test_wrong_usage_is_refused_before_any_connection(
    lockstep: Commands, words: tuple[str, ...], told: str
) -> None:
    refused = lockstep.command("host", *words)
    assert refused.returncode == 2 and told in refused.stderr
