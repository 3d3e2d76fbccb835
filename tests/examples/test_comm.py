"""comm alone, in a program of forty lines, started by launchers other than ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD

SUM = BUILD / "bin" / "sum"
OF_THE_TEST = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


def surroundings(meeting: Path, **variables: object) -> dict[str, str]:
    own = {name: os.environ[name] for name in OF_THE_TEST if name in os.environ}
    return (
        own | {"LOCKSTEP_MEETING_FOLDER": str(meeting)} | {k: str(v) for k, v in variables.items()}
    )


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SUM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def outputs(ranks: list[subprocess.Popen[str]]) -> list[str]:
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), said
    return said


LAUNCHERS = {
    "Open MPI": lambda rank, size: {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_SIZE": size,
        "PMIX_NAMESPACE": "4711.1",
    },
    "MPICH": lambda rank, size: {"PMI_RANK": rank, "PMI_SIZE": size, "MPI_LOCALNRANKS": size},
    "srun": lambda rank, size: {
        "SLURM_PROCID": rank,
        "SLURM_NTASKS": size,
        "SLURM_JOB_ID": 12,
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NUM_NODES": 1,
    },
    "by hand": lambda rank, size: {
        "RANK": rank,
        "WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
        "LOCKSTEP_ADDRESS": "127.0.0.1",
    },
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_of_every_launcher_find_each_other_and_leave_nothing(
    launcher: str, tmp_path: Path
) -> None:
    ranks = [
        start(surroundings(tmp_path, **LAUNCHERS[launcher](rank, 3))) for rank in reversed(range(3))
    ]
    assert "".join(outputs(ranks)) == "3 ranks: 1 + ... + 3 = 6\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.mpich"])
def test_a_real_mpirun_starts_the_example(mpirun: str, tmp_path: Path) -> None:
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is not installed; ./dev bench allreduce installs it")
    options = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in mpirun else []
    ended = subprocess.run(
        [mpirun, *options, "-np", "3", SUM],
        env=surroundings(tmp_path, HOME=tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "3 ranks: 1 + ... + 3 = 6\n"


def test_without_a_launcher_the_error_says_what_to_do(tmp_path: Path) -> None:
    rank = start(surroundings(tmp_path))
    said = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1
    assert said == (
        "sum: no launcher has said which rank this is: start it by lockstep run, torchrun, "
        "mpirun or srun, or set RANK and WORLD_SIZE\n"
    )
