"""Ranks of srun, mpirun and mpiexec find each other; the script names neither rank nor address."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("lockstep")
total = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(dist.get_world_size(), total[0].item(), os.environ.get("LOCAL_RANK"), flush=True)
dist.destroy_process_group()
"""
RESULT = "3 6.0 0\n"
SECONDS = 60
LAUNCHER_PREFIXES = ("SLURM_", "OMPI_", "PMI", "MPI_", "LOCKSTEP_", "MASTER_")
RANK_NAMES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"}


def environment(home: Path, **added: object) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(LAUNCHER_PREFIXES) and name not in RANK_NAMES
    }
    return (
        kept | {"HOME": str(home), "OMP_NUM_THREADS": "1"} | {k: str(v) for k, v in added.items()}
    )


def slurm(rank: int) -> dict[str, object]:
    return {
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": rank,
        "SLURM_NTASKS": 3,
        "SLURM_JOB_ID": 17,
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NUM_NODES": 1,
    }


def open_mpi(rank: int) -> dict[str, object]:
    return {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": 3,
        "OMPI_COMM_WORLD_LOCAL_SIZE": 3,
        "PMIX_NAMESPACE": "a.1",
    }


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def outputs(ranks: list[subprocess.Popen[str]]) -> str:
    """The lines of all ranks; each ends within the bound and without an error."""
    with ExitStack() as stack:
        for rank in ranks:
            stack.callback(rank.kill)
        ended = [rank.communicate(timeout=SECONDS) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), ended
    return "".join(output for output, _ in ended)


def start(
    script: Path, surroundings: dict[str, str], fd: int | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=surroundings,
        pass_fds=[] if fd is None else [fd],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("variables", [slurm, open_mpi])
def test_ranks_meet_by_a_file_in_the_home_that_they_share(
    variables: object, script: Path, tmp_path: Path
) -> None:
    assert callable(variables)
    ranks = [start(script, environment(tmp_path, **variables(rank))) for rank in range(3)]
    assert outputs(ranks) == RESULT
    left = tmp_path / ".local/state/lockstep/meetings"
    assert list(left.iterdir()) == []


class KeyValueSpace:
    """Plays the launcher's part of PMI for three ranks, as Slurm's plugin pmi2 does."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.finalized = 0
        self._barrier = threading.Barrier(3, timeout=SECONDS)

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                words = dict(word.partition("=")[::2] for word in line.split())
                lines.write(self._answer(words) + "\n")
                lines.flush()

    def _answer(self, words: dict[str, str]) -> str:
        if words["cmd"] == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if words["cmd"] == "get_my_kvsname":
            return "cmd=my_kvsname kvsname=17.0"
        if words["cmd"] == "put":
            self.values[words["key"]] = words["value"]
            return "cmd=put_result rc=0 msg=success"
        if words["cmd"] == "barrier_in":
            self._barrier.wait()
            return "cmd=barrier_out"
        if words["cmd"] == "finalize":
            self.finalized += 1
            return "cmd=finalize_ack"
        return f"cmd=get_result rc=0 msg=success value={self.values[words['key']]}"


@pytest.fixture
def space() -> Iterator[tuple[KeyValueSpace, list[socket.socket]]]:
    played = KeyValueSpace()
    pairs = [socket.socketpair() for _ in range(3)]
    threads = [threading.Thread(target=played.serve, args=[own]) for own, _ in pairs]
    for thread in threads:
        thread.start()
    yield played, [theirs for _, theirs in pairs]
    for _, theirs in pairs:
        theirs.close()
    for thread in threads:
        thread.join(timeout=SECONDS)


def test_ranks_of_srun_meet_by_pmi_without_a_shared_folder(
    space: tuple[KeyValueSpace, list[socket.socket]], script: Path, tmp_path: Path
) -> None:
    played, ends = space
    ranks = [
        start(
            script,
            environment(
                tmp_path / f"home{rank}",
                **slurm(rank),
                PMI_FD=end.fileno(),
                PMI_RANK=rank,
                PMI_SIZE=3,
            ),
            end.fileno(),
        )
        for rank, end in enumerate(ends)
    ]
    for end in ends:
        end.close()
    assert outputs(ranks) == RESULT
    assert len(played.values) == 1
    assert played.finalized == 3
    assert not any((tmp_path / f"home{rank}").exists() for rank in range(3))


@pytest.mark.parametrize("launcher", ["mpiexec.mpich", "mpirun.openmpi"])
def test_ranks_of_a_real_launcher_find_each_other(
    launcher: str, script: Path, tmp_path: Path
) -> None:
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    options = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in launcher else []
    ended = subprocess.run(
        [launcher, *options, "-np", "3", sys.executable, str(script)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == RESULT


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_ranks_of_accelerate_launch_find_each_other(script: Path, tmp_path: Path) -> None:
    options = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    accelerate = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", *options]
    ended = subprocess.run(
        [*accelerate, "--num_processes", "3", "--main_process_port", str(free_port()), str(script)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == RESULT


def test_ranks_with_the_variables_of_ray_train_find_each_other(
    script: Path, tmp_path: Path
) -> None:
    port = free_port()
    worker = {"WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": 3, "NODE_RANK": 0}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        start(script, environment(tmp_path, **worker, **place, RANK=rank, LOCAL_RANK=rank))
        for rank in range(3)
    ]
    assert outputs(ranks) == RESULT


def test_a_script_that_names_its_place_itself_keeps_it(script: Path, tmp_path: Path) -> None:
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    place = {"RANK": 0, "WORLD_SIZE": 1, **address}
    rank = start(script, environment(tmp_path, **slurm(2), **place))
    assert outputs([rank]) == "1 1.0 None\n"


def test_a_missing_rank_ends_the_start_with_the_file_that_it_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('("lockstep")', '("lockstep", timeout=timedelta(seconds=1))'))
    script.write_text("from datetime import timedelta\n" + script.read_text())
    rank = start(script, environment(tmp_path, **slurm(1)))
    error = rank.communicate(timeout=SECONDS)[1]
    assert rank.returncode == 1
    assert "rank 1 waited too long for rank 0 to write" in error


def test_a_sharded_model_names_the_call_that_connects_the_ranks_of_srun(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import lockstep, torch\nlockstep.shard(torch.nn.Linear(2, 2))\n")
    variables = slurm(1) | {"SLURM_STEP_NUM_TASKS": "2"}
    rank = start(script, environment(tmp_path, **variables))
    error = rank.communicate(timeout=SECONDS)[1]
    assert rank.returncode == 1
    assert "srun or mpirun has started 2 ranks, which lockstep.shard does not connect" in error
    assert 'torch.distributed.init_process_group("lockstep")' in error
