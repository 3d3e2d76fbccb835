"""`lockstep host add --inventory`: the Ansible role on a host that boots, changes nothing twice."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.cluster import Cluster
from tests.hosts.commands import make_tarball
from tests.hosts.host import Host
from tests.hosts.sandbox import Unavailable
from tests.hosts.testbed import Testbed

from tests.conftest import BUILD, PROGRAM, ROOT, wait_until

TOOLS = BUILD / "venv/bin"
INVENTORY = """
west:
  hosts:
    gpu1:
      ansible_user: root
      lockstep_host_users: [ann]
      lockstep_host_environment: {LOCKSTEP_NOTE: "a b"}
      rack: a3
      row: 7
      db_password: hunter2
      note: some words
"""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    try:
        with Testbed(1, (PROGRAM,)) as made:
            yield made
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def cluster(testbed: Testbed, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(testbed, tmp_path) as made:
        made.environment.update(
            PATH=f"{TOOLS}:{made.environment['PATH']}",
            ANSIBLE_HOME=str(tmp_path / "ansible"),
            ANSIBLE_LOCAL_TEMP=str(tmp_path / "ansible-local"),
            ANSIBLE_NOCOLOR="1",
            ANSIBLE_PIPELINING="1",
            ANSIBLE_SSH_ARGS=f"-F {testbed.keys.config}",
        )
        yield made


def add(cluster: Cluster, package: Path, inventory: Path) -> int:
    """Returns how many tasks changed something."""
    words = ["--inventory", str(inventory), "--package", str(package)]
    done = cluster.command("host", "add", *words, timeout=240)
    found = re.search(r"changed=(\d+) +unreachable=0 +failed=0", done.stdout)
    assert done.returncode == 0 and found, done.stdout + done.stderr
    return int(found.group(1))


def service_of(host: Host) -> int:
    """The process of the service; 0: none."""
    return int(host.as_root("systemctl show --property=MainPID --value lockstep-host"))


def test_the_role_passes_ansible_lint(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(TOOLS / "ansible-lint"), "--offline", "-q", "."],
        cwd=ROOT / "packaging/ansible",
        env={
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "ansible-local"),
        },
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hosts_of_an_inventory_join_once_in_the_pod_of_their_group(
    cluster: Cluster, testbed: Testbed, tmp_path: Path
) -> None:
    (host,) = testbed.hosts
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(INVENTORY)
    package = make_tarball(tmp_path)
    assert add(cluster, package, inventory) > 0
    (view,) = cluster.json("host", "ls")["hosts"]
    assert (view["id"], view["pod"], view["unavailable"]) == ("gpu1", "west", "")
    assert view["labels"] == {"rack": "a3", "row": "7"}
    assert add(cluster, package, inventory) == 0
    assert host.as_root("cat /etc/lockstep/host.env").splitlines()[-1] == 'LOCKSTEP_NOTE="a b"'
    assert host.as_root("cat /etc/lockstep/users") == "ann\n"

    newer = tmp_path / "newer"
    newer.mkdir()
    before = service_of(host)
    assert add(cluster, make_tarball(newer, note="another build"), inventory) > 0
    assert service_of(host) not in (0, before)

    host.reboot()
    wait_until("the service comes back with the machine", lambda: service_of(host))


def test_an_inventory_that_is_missing_is_named(cluster: Cluster, tmp_path: Path) -> None:
    refused = cluster.command("host", "add", "--inventory", "/nowhere.yml")
    assert refused.returncode == 1 or refused.returncode == 2
    assert "there is no inventory /nowhere.yml" in refused.stderr
