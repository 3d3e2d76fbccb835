"""Ranks that a real mpiexec starts find each other, and report to a daemon by LOCKSTEP_URL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.test_external import PYTHON, SECONDS, Job, losses

from tests.conftest import BUILD, ROOT, Cluster

MPIEXEC = ("mpiexec.mpich", "-np", "2")
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
    if shutil.which(MPIEXEC[0]) is None:
        pytest.skip(f"{MPIEXEC[0]} is not installed")
    job = Job(cluster)
    yield job
    job.close()


def launch(job: Job, *program: str | Path, **variables: str) -> str:
    ended = subprocess.run(
        [*MPIEXEC, *program],
        env=job.environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    return ended.stderr


def test_python_ranks_of_mpiexec_are_a_run_with_their_metrics(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PYTHON_RANK)
    told = launch(job, PYTHON, script, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert told.count("lockstep: this run is default/1 on ") == 1
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["launcher"] == "mpiexec of MPICH"
    assert view["name"] == "train"
    assert view["progress"]["step"] == 3
    assert losses(job.cluster, "default/1") == LOSSES


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
