"""`lockstep host add` makes bare machines hosts of a cluster; they reboot and are upgraded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.cluster import ROOT_HOME, Cluster
from tests.hosts.commands import make_tarball
from tests.hosts.host import Host
from tests.hosts.testbed import Testbed
from tests.hosts.ticking import Ticking, ticks

from tests.conftest import wait_until

UNIT = "lockstep-host.service"
BY_ANN = "XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user"


@pytest.fixture
def cluster(testbed: Testbed, hosts: list[Host], tmp_path: Path) -> Iterator[Cluster]:
    """A daemon without a host. At the end no host has anything of Lockstep."""
    with Cluster(testbed, tmp_path) as made:
        yield made
        for host in hosts:
            host.as_root(f"systemctl disable --now {UNIT}; rm -f /etc/systemd/system/{UNIT}; true")
            host.as_root(
                "loginctl disable-linger ann; rm -rf /home/ann/.config/systemd /etc/lockstep"
            )
            host.as_root("rm -rf /usr/local/bin/lockstep /usr/local/lib/lockstep-*; true")


def service_of(host: Host) -> str:
    """The process of the service; empty: none."""
    return host.as_root("pgrep -f 'lockstep host serv[e]$' || true").strip()


def test_hosts_of_a_user_join_in_one_command_and_are_upgraded_under_a_gang(
    cluster: Cluster, testbed: Testbed, hosts: list[Host], package: Path, tmp_path: Path
) -> None:
    targets = ["ann@gpu1", "ann@gpu2"]
    for host in hosts[:2]:
        host.as_root("loginctl enable-linger ann")
    added = cluster.ok("host", "add", *targets, "--package", str(package), "--json")
    found = {one["host"]: one for one in json.loads(added)}
    assert set(found) == {"gpu1", "gpu2"}
    assert not any(one["error"] or one["unavailable"] for one in found.values()), added
    gang = Ticking(cluster, testbed, "upgrade", nodes=2)
    before = [service_of(host) for host in hosts[:2]]

    newer = tmp_path / "newer"
    newer.mkdir()
    upgraded = cluster.command(
        "host", "add", *targets, "--package", str(make_tarball(newer, note="another build"))
    )
    assert upgraded.returncode == 0, upgraded.stderr
    assert "gpu1: the host service runs, and starts with the machine" in upgraded.stderr
    for host, old in zip(hosts[:2], before, strict=True):
        assert service_of(host) not in ("", old)
    gang.await_progress()

    refused = cluster.command("host", "rm", "ann@gpu1")
    assert refused.returncode == 1 and "lockstep host drain gpu1" in refused.stderr
    gang.end()
    cluster.ok("host", "rm", *targets)
    assert cluster.json("host", "ls")["hosts"] == []
    for host in hosts[:2]:
        assert host.run("ls ~/.local/lib ~/.config/systemd/user | grep lockstep || true") == ""
        assert service_of(host) == ""


def test_a_run_goes_on_in_its_next_attempt_after_its_host_has_rebooted(
    cluster: Cluster, testbed: Testbed, hosts: list[Host], package: Path
) -> None:
    host = hosts[0]
    host.as_root("loginctl enable-linger ann")
    cluster.ok("host", "add", "ann@gpu1", "--package", str(package))
    run = cluster.submit(ticks("reboot"), nodes=1)
    cluster.await_state(run, "running")
    host.reboot()
    wait_until("its service is back", lambda: service_of(host))
    wait_until("the next attempt runs", lambda: len(cluster.run(run)["attempts"]) == 2)
    cluster.await_state(run, "running")
    (testbed.shared / "done-reboot").touch()
    cluster.await_state(run, "succeeded")


def test_a_service_of_root_is_a_unit_of_the_machine_that_may_be_restarted_under_a_run(
    cluster: Cluster, testbed: Testbed, hosts: list[Host], package: Path
) -> None:
    host = hosts[2]
    host.as_root("mkdir -p /etc/lockstep && echo ann >/etc/lockstep/users")
    words = ["--package", str(package), "--as", "big", "--pod", "west", "--label", "rack=a3"]
    cluster.ok("host", "add", "root@gpu3", *words)
    (view,) = cluster.json("host", "ls")["hosts"]
    assert (view["id"], view["pod"], view["unavailable"]) == ("big", "west", "")
    assert view["labels"] == {"rack": "a3"}
    cluster.ok("user", "add", "ann")
    token = cluster.ok("token", "create", "--user", "ann").strip()
    host.run(f"umask 077; echo {token} >token")
    submit = f"LOCKSTEP_URL='{cluster.url}' LOCKSTEP_TOKEN_FILE=token lockstep run --detach"
    run = host.run(f"{submit} --rank-loss-retries 0 -- sh -c '{ticks('unit')}'").split()[0]
    cluster.await_state(run, "running")
    before = service_of(host)
    host.as_root(f"systemctl restart {UNIT}")
    wait_until("another service runs", lambda: service_of(host) not in ("", before))
    cluster.await_host_id("big", lambda view: not view["unavailable"])
    (testbed.shared / "done-unit").touch()
    view = cluster.await_state(run, "succeeded")
    assert len(view["attempts"]) == 1
    cluster.ok("host", "rm", "root@gpu3", "--as", "big")
    host.as_root(f"rm -rf /home/ann/token {ROOT_HOME}")


def test_a_user_whose_units_end_at_logout_is_told_what_root_has_to_do(
    cluster: Cluster, hosts: list[Host], package: Path
) -> None:
    host = hosts[3]
    host.as_root("loginctl disable-linger ann; mkdir -p /var/lib/systemd/linger")
    host.as_root("mount -t tmpfs -o ro none /var/lib/systemd/linger")
    try:
        done = cluster.command("host", "add", "ann@gpu4", "--package", str(package))
    finally:
        host.as_root("umount /var/lib/systemd/linger")
    assert done.returncode == 0, done.stderr
    assert "gpu4: has joined as gpu4" in done.stderr
    assert "let root run `loginctl enable-linger ann`" in done.stderr
    cluster.ok("host", "rm", "ann@gpu4")
    assert service_of(host) == ""


def test_a_daemon_that_no_other_machine_reaches_is_an_error_before_any_connection(
    testbed: Testbed, hosts: list[Host], package: Path, tmp_path: Path
) -> None:
    with Cluster(testbed, tmp_path, listen="127.0.0.1") as alone:
        refused = alone.command("host", "add", "ann@gpu1", "--package", str(package))
        assert refused.returncode == 2
        assert "listens on this machine only" in refused.stderr
        assert "lockstep serve --engine hosts --listen 0.0.0.0" in refused.stderr
    refused = alone.command("host", "add", "ann@gpu1", "--package", str(package))
    assert "no daemon runs that a host could join" in refused.stderr
