"""The testbed itself: its hosts are as separate, and fail as truly, as the tests of others need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.hosts.host import Host
from tests.hosts.sandbox import PREFIX, Unavailable, hierarchies, name_of
from tests.hosts.testbed import NEEDED, Testbed, check_machine

from tests.conftest import ROOT, is_alive, wait_until


def reaches(host: Host, other: str) -> bool:
    """True if a new connection from host to host is accepted."""
    try:
        host.as_root(f"timeout 0.3 bash -c ': </dev/tcp/{other}/22'")
    except RuntimeError:
        return False
    return True


def test_hosts_differ_in_all_that_identifies_a_machine(hosts: list[Host]) -> None:
    script = "cat /proc/sys/kernel/random/boot_id /etc/machine-id; hostname"
    answers = [host.run(script).split() for host in hosts]
    assert [answer[2] for answer in answers] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert len({answer[0] for answer in answers}) == len({answer[1] for answer in answers}) == 4


def test_hosts_have_their_own_files_and_processes_and_one_shared_folder(
    testbed: Testbed, hosts: list[Host]
) -> None:
    first, second = hosts[:2]
    first.run("touch ~/mine /dev/shm/mine /tmp/mine; echo ours >/shared/ours")
    assert second.command("ls ~/mine /dev/shm/mine /tmp/mine").stdout == ""
    assert second.run("cat /shared/ours") == (testbed.shared / "ours").read_text() == "ours\n"
    assert len(first.run("ps -e -o pid=").split()) < 40
    assert int(first.run("id -u")) >= 1000


def test_hosts_see_each_other_by_name_and_log_in_to_each_other(hosts: list[Host]) -> None:
    assert hosts[0].run("ssh gpu4 hostname") == "gpu4\n"
    assert hosts[3].run("ssh gpu1 hostname") == "gpu1\n"


def test_a_silent_cut_drops_what_it_names_and_nothing_else(hosts: list[Host]) -> None:
    first, second, third = hosts[:3]
    second.drop(first)
    try:
        assert not reaches(first, second.name) and not reaches(second, first.name)
        assert reaches(first, third.name) and reaches(third, second.name)
    finally:
        second.undrop(first)
    assert reaches(first, second.name)


def test_a_host_that_is_cut_off_lives_on(hosts: list[Host]) -> None:
    first, second = hosts[:2]
    before = first.boot_id()
    first.drop()
    try:
        assert not reaches(second, first.name) and not reaches(first, second.name)
    finally:
        first.undrop()
    assert reaches(second, first.name) and first.boot_id() == before


def test_a_pulled_cable_is_seen_by_the_host(hosts: list[Host]) -> None:
    first, second = hosts[:2]
    first.link_down()
    try:
        assert "NO-CARRIER" in first.as_root("ip link show host0")
        assert not reaches(second, first.name)
    finally:
        first.link_up()
    wait_until("the host is reached again", lambda: reaches(second, first.name))


def test_a_reboot_comes_back_with_another_boot_id_and_its_files(hosts: list[Host]) -> None:
    host = hosts[1]
    before = host.boot_id()
    host.run("echo kept >~/kept; touch /dev/shm/lost")
    host.reboot()
    assert host.boot_id() != before
    assert host.run("cat ~/kept") == "kept\n" and host.run("ls /dev/shm") == ""


def test_a_power_loss_ends_all_processes_at_once(hosts: list[Host]) -> None:
    host = hosts[2]
    host.run("echo kept >~/kept; setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    wait_until("it runs", lambda: "sleep" in {name_of(pid) for pid in host.processes()})
    running = host.processes()
    host.power_off()
    assert not any(is_alive(pid) for pid in running) and not reaches(hosts[0], host.name)
    host.boot()
    assert host.run("cat ~/kept") == "kept\n"
    assert host.command("pgrep -x sleep").stdout == ""


def test_the_clock_of_one_host_is_wrong(hosts: list[Host]) -> None:
    host, other = hosts[:2]
    host.set_clock(-300)
    try:
        late = int(other.run("date +%s")) - int(host.run("date +%s"))
    finally:
        host.set_clock(0)
    assert 295 < late < 330
    assert abs(int(other.run("date +%s")) - int(host.run("date +%s"))) < 30


def test_a_small_disk_is_full_at_its_size(hosts: list[Host]) -> None:
    with hosts[0].small_disk("/home/ann/small", mib=2):
        full = hosts[0].command("head -c 4M /dev/zero >~/small/file")
        assert full.returncode != 0 and "No space left" in full.stderr
    hosts[0].run("head -c 4M /dev/zero >~/file")


PROGRAM = """
from tests.hosts.testbed import Testbed
with Testbed(1) as made:
    print(*made.hosts[0].processes(), flush=True)
    input()
"""


def end_program(how: signal.Signals, folder: Path) -> subprocess.Popen[str]:
    """Ends a test program while its host runs; returns when no process of the host is left."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert program.stdout is not None
    pids = [int(word) for word in program.stdout.readline().split()]
    assert len(pids) > 5
    program.send_signal(how)
    program.communicate()
    wait_until("its host is gone", lambda: not any(is_alive(pid) for pid in pids))
    return program


def control_groups_of(program: subprocess.Popen[str]) -> list[Path]:
    groups = [top / f"{PREFIX}{program.pid}" for top in hierarchies()]
    return [group for group in groups if group.exists()]


def test_ctrl_c_leaves_nothing(testbed: Testbed, tmp_path: Path) -> None:
    program = end_program(signal.SIGINT, tmp_path)
    assert list(tmp_path.iterdir()) == [] and control_groups_of(program) == []


def test_what_a_killed_test_program_leaves_is_removed_at_the_next_start(
    testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = end_program(signal.SIGKILL, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Testbed(1):
        pass
    assert list(tmp_path.iterdir()) == [] and control_groups_of(program) == []


def test_without_root_or_a_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setitem(NEEDED, "no-such-program", "such-a-package")
    with pytest.raises(Unavailable, match=r"need Debian's.* such-a-package"):
        check_machine()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="need root"):
        check_machine()
