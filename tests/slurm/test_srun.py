"""Programs over the backend in plain jobs of Slurm, without a daemon of Lockstep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.slurm.testbed import Slurm

from tests.conftest import BUILD, Cluster, wait_until

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


REPORTS = """
import os, time
import lockstep
rank = int(os.environ["SLURM_PROCID"])
for step in range(1, 4):
    lockstep.log({"loss": rank + 1 / step}, step=step)
time.sleep(float(os.environ.get("PAUSE", "0")))
"""


@pytest.fixture
def daemon(idle: Cluster) -> Cluster:
    """A daemon that has nothing to do with Slurm."""
    idle.serve()
    return idle


def reporting(slurm: Slurm, daemon: Cluster, home: Path, **more: str) -> dict[str, str]:
    path = f"{BUILD / 'bin'}:{os.environ['PATH']}"
    url = {"LOCKSTEP_URL": daemon.url(), "LOCKSTEP_TOKEN_FILE": str(daemon.home / "token")}
    return {**surroundings(slurm, home), **url, "PATH": path, **more}


def test_ranks_of_srun_report_to_a_daemon(slurm: Slurm, daemon: Cluster, tmp_path: Path) -> None:
    ended = subprocess.run(
        ["srun", *TWO_HOSTS, sys.executable, "-c", REPORTS],
        env=reporting(slurm, daemon, tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("lockstep: this run is default/1 on ") == 1
    view = daemon.ended("default/1")
    assert view["reason"] == "all 4 ranks exited with code 0"
    assert view["launcher"].startswith("srun (Slurm job ")
    series = json.loads(daemon.ok("metrics", "default/1", "--each-rank", "--json"))["series"]
    assert {each["rank"]: len(each["points"]) for each in series} == dict.fromkeys(range(4), 3)


MEETS_BETWEEN = """
import os
import lockstep, torch.distributed as dist
rank = int(os.environ["SLURM_PROCID"])
def log():
    for step in range(1, 4):
        lockstep.log({"loss": rank + 1 / step}, step=step)
if rank % 2 == 0:
    log()
dist.init_process_group("lockstep")
if rank % 2:
    log()
dist.destroy_process_group()
"""


def test_ranks_that_report_before_and_after_they_meet_are_one_run(
    slurm: Slurm, daemon: Cluster, tmp_path: Path
) -> None:
    ended = subprocess.run(
        ["srun", *TWO_HOSTS, sys.executable, "-c", MEETS_BETWEEN],
        env=reporting(slurm, daemon, tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("lockstep: this run is default/1 on ") == 1
    view = daemon.ended("default/1")
    assert view["reason"] == "all 4 ranks exited with code 0"
    assert view["launcher"].startswith("srun (Slurm job ")
    assert len(json.loads(daemon.ok("ps", "--json"))["runs"]) == 1


def test_a_job_that_scancel_ends_is_a_run_that_a_signal_has_ended(
    slurm: Slurm, daemon: Cluster, tmp_path: Path
) -> None:
    step = subprocess.Popen(
        ["srun", "-N1", "-n2", sys.executable, "-c", REPORTS],
        env=reporting(slurm, daemon, tmp_path, PAUSE="60"),
        stderr=subprocess.PIPE,
        text=True,
    )
    show = ("show", "default/1", "--json")
    wait_until("the run is there", lambda: daemon.command(*show).returncode == 0)
    job = daemon.show("default/1")["launcher"].partition("job ")[2].rstrip(")")
    slurm.ok("scancel", job)
    step.communicate(timeout=60)
    view = daemon.ended("default/1")
    # Slurm signals the agent too, unless it tracks a step by its process group.
    assert view["state"] in ("cancelled", "failed")
    assert "signal" in view["reason"]
