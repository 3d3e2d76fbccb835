"""The real deepspeed starts ranks that train over our backend and report to a daemon.

`./dev check launchers` runs it; LOCKSTEP_LAUNCHERS is the folder in which DeepSpeed is installed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.test_external import Job, losses, ranks_of

from tests.conftest import Cluster, reserved_port, wait_until

PATIENCE = 300.0  # seconds: six processes import DeepSpeed

DEEPSPEED = f"{os.environ['LOCKSTEP_LAUNCHERS']}/bin/deepspeed"
# The targets of the ranks are 0 and 1; the first step of their parameters is to the mean.
ZERO = """
import argparse
import deepspeed
import lockstep
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.parse_args()
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
deepspeed.init_distributed(dist_backend="lockstep")
model = torch.nn.Linear(1, 1)
for parameter in model.parameters():
    torch.nn.init.zeros_(parameter)
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.25),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,  # it is 1.0 otherwise
    },
)
rank = torch.distributed.get_rank()
for step in range(1, 4):
    loss = (engine(torch.ones(1, 1)) - rank).pow(2).mean()
    engine.backward(loss)
    engine.step()
    lockstep.log({"loss": loss}, step=step)
    lockstep.progress(step, 3)
torch.distributed.destroy_process_group()
"""
PLAIN = """
import time
import lockstep
import torch.distributed as dist

dist.init_process_group("lockstep")
lockstep.log({{"loss": 1.0}}, step=1)
if dist.get_rank() == 1:
    {ending}
time.sleep(60)
"""


@pytest.fixture
def job(cluster: Cluster) -> Iterator[Job]:
    job = Job(cluster)
    yield job
    for launcher in job.ranks:  # with what it has started
        with contextlib.suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
    job.close()


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


def start(job: Job, port: int, script: Path, *options: str) -> subprocess.Popen[str]:
    deepspeed = subprocess.Popen(
        [*(DEEPSPEED, "--num_accelerators", "2"), *("--master_port", str(port)), *options, script],
        env=job.environment(DS_ACCELERATOR="cpu", OMP_NUM_THREADS=1),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    job.ranks.append(deepspeed)
    return deepspeed


def test_ranks_of_deepspeed_train_by_zero_over_the_backend_and_are_a_run(
    job: Job, port: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(ZERO)
    deepspeed = start(job, port, script)
    told = deepspeed.communicate(timeout=PATIENCE)[0]
    assert deepspeed.returncode == 0, told
    assert told.count("lockstep: this run is default/1 on ") == 1
    assert "UserWarning" not in told
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["launcher"] == "deepspeed"
    assert view["name"] == "train"
    assert view["progress"]["step"] == 3
    assert losses(job.cluster, "default/1") == {0: [0.0, 0.25, 0.25], 1: [1.0, 0.25, 0.25]}


def test_a_run_of_deepspeed_has_the_error_of_the_rank_that_failed(
    job: Job, port: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN.format(ending='raise ValueError("bad loss")'))
    deepspeed = start(job, port, script, "--no_local_rank")
    told = deepspeed.communicate(timeout=PATIENCE)[0]
    assert deepspeed.returncode == 1, told
    view = job.cluster.ended("default/1")
    assert view["state"] == "failed"
    assert view["reason"].startswith("rank 1 on host ")
    assert view["reason"].endswith(" exited with code 1; rank 1: ValueError: bad loss")


def test_a_run_of_deepspeed_names_the_rank_that_was_killed(
    job: Job, port: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN.format(ending="pass"))
    deepspeed = start(job, port, script, "--no_local_rank")
    wait_until(
        "both ranks have reported",
        lambda: (
            job.cluster.command("show", "default/1").returncode == 0
            and set(ranks_of(job.cluster.show("default/1"))) == {0, 1}
        ),
        PATIENCE,
    )
    os.kill(ranks_of(job.cluster.show("default/1"))[1]["pid"], signal.SIGKILL)
    deepspeed.communicate(timeout=PATIENCE)
    view = job.cluster.ended("default/1")
    assert view["state"] == "failed"
    assert view["reason"].startswith("rank 1 on host ")
    assert view["reason"].endswith(" was killed by signal 9 (SIGKILL)")
