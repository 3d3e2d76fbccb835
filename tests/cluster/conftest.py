"""Fixtures of tests with host services."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.hosts import Joined

from tests.conftest import PROGRAM, Cluster

# Hosts are soon silent.
SETTINGS = ("--set", "host_silent_after=3s")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the user of the services, with a program that it can read."""
    # The temporary folder of the tests may be private to root.
    with tempfile.TemporaryDirectory(prefix="lockstep-hosts-", dir="/tmp") as name:
        shutil.copy(PROGRAM, Path(name) / "lockstep")
        Path(name).chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(name, "nobody", "nogroup")
        yield Path(name)


@pytest.fixture
def joined(idle: Cluster, place: Path) -> Iterator[Joined]:
    idle.ok("serve", "--engine", "hosts", "--port", "0", "--detach", *SETTINGS)
    made = Joined(idle, place)
    yield made
    made.end()
