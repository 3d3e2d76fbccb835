"""Programs over the backend in plain jobs of Slurm, without a daemon of Lockstep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.slurm.testbed import Slurm

from tests.conftest import wait_until

SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("lockstep")
total = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    print("sum", total[0].item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
SUM = "sum 10.0 of 4"
TWO_HOSTS = ["-N2", "--ntasks-per-node=2"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def surroundings(slurm: Slurm, home: Path) -> dict[str, str]:
    return {**slurm.environment, "HOME": str(home), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("mpi", ["none", "pmi2"])
def test_srun_starts_a_script_as_it_is(
    slurm: Slurm, script: Path, tmp_path: Path, mpi: str
) -> None:
    ended = subprocess.run(
        ["srun", f"--mpi={mpi}", *TWO_HOSTS, sys.executable, str(script)],
        env=surroundings(slurm, tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [SUM]
    files = tmp_path / ".local/state/lockstep/meetings"
    assert files.exists() == (mpi == "none"), "with PMI no file is needed"
    assert not files.exists() or os.listdir(files) == []


def test_a_batch_script_starts_it_as_it_is(slurm: Slurm, script: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/bash\n#SBATCH -o {output}\nsrun --mpi=pmi2 {sys.executable} {script}\n")
    subprocess.run(
        ["sbatch", *TWO_HOSTS, str(job)],
        env=surroundings(slurm, tmp_path),
        check=True,
        capture_output=True,
        timeout=30,
    )
    wait_until("the job prints its sum", lambda: output.exists() and SUM in output.read_text(), 60)
