"""Ranks that a real mpiexec or mpirun starts find each other, and report to a daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.test_external import PYTHON, SECONDS, Job, losses

from tests.conftest import BUILD, ROOT, Cluster

MPICH = ("mpiexec.mpich", "-np", "2")
OPEN_MPI = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2")
PYTHON_RANK = """
import lockstep
import torch
import torch.distributed as dist

dist.init_process_group("lockstep")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
for step in range(1, 4):
    lockstep.log({"loss": total.item() / step + dist.get_rank()}, step=step)
    lockstep.progress(step, 3)
dist.destroy_process_group()
"""
EARLY = """
import os
import lockstep
if os.environ["{name}"] == "1":
    lockstep.log({{"start": 1}})
"""
CPP_RANK = """
#include <vector>
#include <lockstep/comm.h>
#include <lockstep/report.h>
int main(int, char** arguments) {
  auto world = lockstep::join().value();
  std::vector<float> total{world.rank() + 1.0f};
  world.all_reduce(total, lockstep::ReduceOp::sum).value();
  lockstep::Reporter reporter;
  for (int step = 1; step <= 3; ++step) {
    reporter.metric(step, "loss", total[0] / step + world.rank());
    reporter.progress(step, 3);
  }
  if (world.rank() == 0) {
    reporter.checkpoint(3, arguments[1]);
    reporter.event(3, "the last step");
  }
}
"""
# (1 + 2) / step + rank
LOSSES = {0: [3.0, 1.5, 1.0], 1: [4.0, 2.5, 2.0]}


@pytest.fixture
def job(cluster: Cluster) -> Iterator[Job]:
    job = Job(cluster)
    yield job
    job.close()


def launch(
    job: Job, *program: str | Path, launcher: tuple[str, ...] = MPICH, **variables: str
) -> str:
    if shutil.which(launcher[0]) is None:
        pytest.skip(f"{launcher[0]} is not installed")
    ended = subprocess.run(
        [*launcher, *program],
        env=job.environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    return ended.stderr


@pytest.mark.parametrize(
    ("launcher", "name"), [(MPICH, "mpiexec of MPICH"), (OPEN_MPI, "mpirun of Open MPI")]
)
def test_python_ranks_of_mpiexec_are_a_run_with_their_metrics(
    job: Job, tmp_path: Path, launcher: tuple[str, ...], name: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PYTHON_RANK)
    path = os.environ.get("PYTHONPATH", "")
    told = launch(job, PYTHON, script, launcher=launcher, PYTHONPATH=path)
    assert told.count("lockstep: this run is default/1 on ") == 1
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["launcher"] == name
    assert view["name"] == "train"
    assert view["progress"]["step"] == 3
    assert losses(job.cluster, "default/1") == LOSSES


@pytest.mark.parametrize("launcher", [MPICH, OPEN_MPI])
def test_ranks_that_report_before_and_after_they_meet_are_one_run(
    job: Job, tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    script = tmp_path / "train.py"
    name = "PMI_RANK" if launcher == MPICH else "OMPI_COMM_WORLD_RANK"
    early = EARLY.format(name=name)
    script.write_text(early + PYTHON_RANK)
    path = os.environ.get("PYTHONPATH", "")
    told = launch(job, PYTHON, script, launcher=launcher, PYTHONPATH=path)
    assert told.count("lockstep: this run is default/1 on ") == 1
    assert job.cluster.ended("default/1")["reason"] == "all 2 ranks exited with code 0"
    assert len(json.loads(job.cluster.ok("ps", "--json"))["runs"]) == 1


def test_the_reporter_of_a_cpp_program_reaches_a_daemon(job: Job, tmp_path: Path) -> None:
    source, program = tmp_path / "train.cc", tmp_path / "train"
    source.write_text(CPP_RANK)
    libraries = BUILD / "lib"
    options = ["-std=c++20", f"-I{ROOT / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    subprocess.run(
        ["g++", *options, source, "-llockstep-comm", "-o", program], check=True, timeout=SECONDS
    )
    told = launch(job, program, tmp_path)
    assert told.count("this run is default/1 on ") == 1
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["progress"]["step"] == 3
    assert [each["path"] for each in view["checkpoints"]] == [str(tmp_path)]
    assert losses(job.cluster, "default/1") == LOSSES
    assert "the last step" in job.cluster.ok("show", "default/1")
