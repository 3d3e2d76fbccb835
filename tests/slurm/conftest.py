"""Fixtures: one Slurm for all tests of this folder, and a daemon for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.testbed import Slurm, make_folder

from tests.conftest import Cluster


class SlurmCluster(Cluster):
    """A daemon whose runs are jobs of Slurm."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        super().__init__(folder / "home")
        self.slurm = slurm
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.environment["SLURM_CONF"] = slurm.environment["SLURM_CONF"]

    def start(self, *words: str) -> None:
        shared = str(self.shared)
        self.ok("serve", "--engine", "slurm", "--shared", shared, "--detach", *words)

    def jobs(self, *states: str) -> list[str]:
        """The ids of its jobs that Slurm knows."""
        installation = (self.home / "installation").read_text().strip()
        wanted = ("-t", ",".join(states)) if states else ()
        lines = self.slurm.ok("squeue", "-h", *wanted, "-o", "%i %k").splitlines()
        return [line.split()[0] for line in lines if f"lockstep {installation}:" in line]

    def jobs_of(self, run: str) -> list[str]:
        """The ids of the jobs of one run."""
        installation = (self.home / "installation").read_text().strip()
        lines = self.slurm.ok("squeue", "-h", "-t", "all", "-o", "%i %k").splitlines()
        own = [line for line in lines if f"lockstep {installation}:" in line]
        return [line.split()[0] for line in own if f":{run}." in line]


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    if os.geteuid() != 0:
        pytest.skip("munged and slurmctld of these tests need root")
    for program in ("slurmctld", "slurmd", "munged"):
        if not Path("/usr/sbin", program).exists():
            pytest.skip(f"/usr/sbin/{program} is missing: install tools/apt-packages-tests.txt")
    folder = make_folder()
    slurm = Slurm(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def waiting(slurm: Slurm, tmp_path: Path) -> Iterator[SlurmCluster]:
    """Its daemon is not started yet."""
    cluster = SlurmCluster(tmp_path, slurm)
    yield cluster
    if (cluster.home / "daemon.json").exists():
        cluster.close()


@pytest.fixture
def served(waiting: SlurmCluster) -> SlurmCluster:
    waiting.start()
    return waiting
