"""The Ansible role on a host that boots: it installs, starts the unit, changes nothing twice."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.host import Host
from tests.hosts.sandbox import Unavailable
from tests.hosts.testbed import Testbed

from tests.conftest import BUILD, ROOT, wait_until

ANSIBLE = ROOT / "packaging/ansible"
TOOLS = BUILD / "venv/bin"
# In place of the program: a service with one agent, a process of its own.
STAND_IN = """#!/bin/sh
[ "$*" = "host serve" ] || exit 2
pgrep -x agent-stand-in >/dev/null || setsid /usr/local/bin/agent-stand-in 1000 &
exec sleep 2000
"""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    try:
        with Testbed(1) as made:
            yield made
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    program = folder / "lockstep"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    package = folder / "lockstep-0.1.0-Linux.tar.gz"
    with tarfile.open(package, "w:gz") as tar:
        tar.add(program, "lockstep-0.1.0-Linux/bin/lockstep")
    return package


def ansible(folder: Path, *command: str, within: list[str] | None = None, **variables: str) -> str:
    done = subprocess.run(
        [*(within or []), str(TOOLS / command[0]), *command[1:]],
        cwd=ANSIBLE,
        env={
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(folder / "ansible-local"),
            "ANSIBLE_NOCOLOR": "1",
            **variables,
        },
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def play(testbed: Testbed, package: Path, folder: Path) -> int:
    """Runs the playbook on gpu1; returns how many of its tasks changed something."""
    said = ansible(
        folder,
        *("ansible-playbook", "-i", "gpu1,", "-e", f"lockstep_host_package={package}"),
        *("-e", '{"lockstep_host_environment": {"LOCKSTEP_NOTE": "a b"}}', "-u", "root"),
        "-e",
        "lockstep_host_started=true",
        "add_hosts.yml",
        within=testbed.on_network,
        ANSIBLE_SSH_ARGS=f"-F {testbed.keys.config}",
        ANSIBLE_PIPELINING="1",
    )
    found = re.search(r"changed=(\d+) +unreachable=0 +failed=0", said)
    assert found, said
    return int(found.group(1))


def service_of(host: Host) -> int:
    """The process of the service; 0: none."""
    shown = host.as_root("systemctl show --property=MainPID --value lockstep-host")
    return int(shown)


def agent_of(host: Host) -> str:
    return host.as_root("pgrep -x agent-stand-in || true").strip()


def test_the_role_passes_ansible_lint(tmp_path: Path) -> None:
    ansible(tmp_path, "ansible-lint", "--offline", "-q", ".")


def test_the_role_sets_up_a_machine_once_and_agents_survive_the_service(
    testbed: Testbed, package: Path, tmp_path: Path
) -> None:
    (host,) = testbed.hosts
    host.as_root("cp /bin/sleep /usr/local/bin/agent-stand-in")
    assert play(testbed, package, tmp_path) > 0
    assert play(testbed, package, tmp_path) == 0
    assert host.as_root("cat /etc/lockstep/host.env").splitlines()[-1] == 'LOCKSTEP_NOTE="a b"'

    agent = wait_until("the service has an agent", lambda: agent_of(host))
    service = service_of(host)
    host.as_root(f"kill -KILL {service}")
    wait_until("it is started again", lambda: service_of(host) not in (0, service))
    host.as_root("systemctl restart lockstep-host")
    assert agent_of(host) == agent

    host.reboot()
    wait_until("it comes back with the machine", lambda: service_of(host))


def test_the_unit_of_a_user_is_one_that_systemd_takes(testbed: Testbed) -> None:
    (host,) = testbed.hosts
    host.run("mkdir -p ~/.local/bin && cp /bin/true ~/.local/bin/lockstep")
    unit = (ROOT / "packaging/systemd/user/lockstep-host.service").read_text()
    host.run(f"cat >~/lockstep-host.service <<'END'\n{unit}\nEND")
    assert host.run("systemd-analyze --user verify ~/lockstep-host.service 2>&1") == ""
