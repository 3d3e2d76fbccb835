"""`lockstep host` where it needs no daemon: the inventory of this machine, and wrong usage."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import Cluster


def test_the_inventory_tells_what_this_machine_is_without_a_daemon(idle: Cluster) -> None:
    report = json.loads(idle.ok("host", "inventory", "--json"))
    host = report["inventory"]
    assert host["name"] == os.uname().nodename and host["kernel"] == os.uname().release
    assert host["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host["cores"] == len(os.sched_getaffinity(0)) and host["devices"]
    assert str(idle.home) in [disk["path"] for disk in host["disks"]]
    age = datetime.now(UTC) - datetime.fromisoformat(host["clock"])
    assert 0 <= age.total_seconds() < 60
    assert not idle.home.exists()


def test_the_inventory_is_readable(idle: Cluster) -> None:
    lines = idle.ok("host", "inventory").splitlines()
    assert lines[0] == os.uname().nodename
    labels = {line.split()[0] for line in lines[1:]}
    assert {"lockstep", "system", "cores", "memory", "devices", "libfabric", "disk"} <= labels


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("inventory", "gpu1"), "leave out the host"),
        (("inventory", "--reason", "x"), "--reason is for cordon, drain and release"),
        (("ls", "--reason", "x"), "--reason is for cordon, drain and release"),
    ],
)
def test_what_an_action_does_not_take_is_refused(
    idle: Cluster, words: tuple[str, ...], told: str
) -> None:
    refused = idle.command("host", *words)
    assert refused.returncode == 2 and told in refused.stderr
    assert refused.stderr.count("\n") == 1
