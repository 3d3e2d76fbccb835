"""Job files of Slurm and Kubernetes and torchrun's command line, as users have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cluster

SAY = "echo $GREETING $RANK of $WORLD_SIZE"

SBATCH = f"""#!/bin/bash
#SBATCH --job-name=greet --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --partition=big
export GREETING=rank
srun --label bash -c '{SAY}' > out.txt
"""

KUBERNETES = f"""apiVersion: batch/v1
kind: Job
metadata: {{name: greet}}
spec:
  parallelism: 4
  template:
    spec:
      hostNetwork: true
      containers:
        - command: [bash, -c, '{SAY}']
          env: [{{name: GREETING, value: rank}}]
"""

FOUR_RANKS = [f"rank {rank} of 4" for rank in range(4)]


def said(output: str) -> list[str]:
    return sorted(line.partition("] ")[2] for line in output.splitlines())


@pytest.mark.parametrize(
    ("name", "content", "left_out"),
    [
        ("greet.sbatch", SBATCH, ["line 6: > out.txt"]),
        ("greet.yaml", KUBERNETES, ["line 8: spec/template/spec/hostNetwork"]),
    ],
)
def test_a_job_file_runs_and_says_how_it_was_read(
    cluster: Cluster, tmp_path: Path, name: str, content: str, left_out: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(content)
    grid = ["-n", "2", "-g", "2"] if name.endswith(".yaml") else []  # over the file's values
    ended = cluster.command("run", *grid, str(file))
    assert ended.returncode == 0, ended.stderr
    assert said(ended.stdout) == FOUR_RANKS
    assert "is read as this run file:\nname: greet\n" in ended.stderr
    for line in left_out:
        assert f"left out: {line}" in ended.stderr
    assert "GREETING: rank" not in ended.stderr, "values of variables are not shown"


def test_the_command_line_of_torchrun_becomes_ranks(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "greet.py"
    script.write_text(
        "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    )
    torchrun = ["torchrun", "--nnodes=2", "--nproc-per-node", "2", "--rdzv-backend=c10d"]
    ended = cluster.command("run", "--", *torchrun, str(script))
    assert ended.returncode == 0, ended.stderr
    assert said(ended.stdout) == FOUR_RANKS
    assert "torchrun is read as this run file:" in ended.stderr


def test_the_command_line_of_horovodrun_becomes_ranks(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
print("rank", hvd.rank(), "of", hvd.size(), "has", total.item(), flush=True)
""")
    horovodrun = ["horovodrun", "-np", "2", "--gloo", "--cycle-time-ms=2"]
    ended = cluster.command("run", "--", *horovodrun, "python", str(script))
    assert ended.returncode == 0, ended.stderr
    assert said(ended.stdout) == ["rank 0 of 2 has 1.0", "rank 1 of 2 has 1.0"]
    assert "horovodrun is read as this run file:" in ended.stderr
    # The option does the same for another command line.
    ended = cluster.command("run", "-g", "2", "--horovod", "--", "python", str(script))
    assert ended.returncode == 0, ended.stderr
    assert said(ended.stdout) == ["rank 0 of 2 has 1.0", "rank 1 of 2 has 1.0"]


def test_a_plan_shows_the_reading_and_starts_nothing(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "greet.sh"
    file.write_text(SBATCH)
    planned = cluster.command("run", "--plan", str(file))
    assert planned.returncode == 0
    assert "is read as this run file" in planned.stderr
    assert planned.stdout.startswith("2 nodes x 2 devices would start at once")
    assert "slurm: {partition: big}" in planned.stderr or "  partition: big" in planned.stderr
    assert "The daemon ignores slurm: it has another engine" in planned.stdout
    assert "greet" not in cluster.ok("ps")


def test_as_is_starts_the_script_itself(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "plain.sh"
    file.write_text("#!/bin/bash\n#SBATCH -N 2\necho plain $1 $WORLD_SIZE\n")
    file.chmod(0o755)
    assert cluster.ok("run", "--as-is", "--", str(file), "one") == "plain one 1\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("#!/bin/bash\n#SBATCH -N 2\nfor x in 1; do\n", "job.sh:3: 'for' is not understood"),
        ("#!/bin/bash\n#SBATCH --array=1-3\nsrun ./a\n", "job.sh:2: an array of jobs"),
        ("#!/bin/bash\n#SBATCH -N 2\nsrun ./a $UNSET\n", "job.sh:3: the value of $UNSET"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused_by_line(
    cluster: Cluster, tmp_path: Path, content: str, error: str
) -> None:
    file = tmp_path / "job.sh"
    file.write_text(content)
    refused = cluster.command("run", str(file))
    assert refused.returncode == 2
    assert error in refused.stderr
    assert refused.stderr.count("\n") == 1
