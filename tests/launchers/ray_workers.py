"""The real Ray Train starts workers that train over our backend and report to a daemon.

`./dev check launchers` runs it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.test_external import PYTHON, Job, losses

from tests.conftest import Cluster

PATIENCE = 300.0  # seconds: six processes import Ray

# The targets of the workers are 0 and 1; the first step of their parameters is to the mean.
TRAIN = """
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

def train():
    import lockstep
    import torch
    model = torch.nn.Linear(1, 1)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    model = prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    rank = ray.train.get_context().get_world_rank()
    try:
        for step in range(1, 4):
            loss = (model(torch.ones(1, 1)) - rank).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lockstep.log({{"loss": loss}}, step=step)
        assert torch.distributed.get_backend() == "lockstep"
        {ending}
    except Exception as error:
        lockstep.finish(error)
        raise
    lockstep.finish()

ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir={folder!r})
TorchTrainer(
    train,
    torch_config=TorchConfig(backend="lockstep"),
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="linear", storage_path={folder!r}),
).fit()
"""


@pytest.fixture
def job(cluster: Cluster) -> Iterator[Job]:
    job = Job(cluster)
    yield job
    job.close()


def train(job: Job, tmp_path: Path, ending: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(TRAIN.format(ending=ending, folder=str(job.folder)))
    return subprocess.run(
        [PYTHON, str(script)],
        env=job.environment(
            OMP_NUM_THREADS=1,
            RAY_USAGE_STATS_ENABLED=0,
            RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=PATIENCE,
        ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_workers_of_ray_train_over_the_backend_and_are_a_run(job: Job, tmp_path: Path) -> None:
    ended = train(job, tmp_path, ending="pass")
    assert ended.returncode == 0, ended.stderr
    told = ended.stdout + ended.stderr  # Ray repeats lines of its workers
    assert "lockstep: this run is default/1 on " in told
    assert "did not reach the agent" not in told
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["launcher"] == "Ray"
    assert view["name"] == "linear"
    assert losses(job.cluster, "default/1") == {0: [0.0, 0.25, 0.25], 1: [1.0, 0.25, 0.25]}


def test_a_run_of_ray_has_the_error_of_the_worker_that_failed(job: Job, tmp_path: Path) -> None:
    ending = 'if rank == 1: raise ValueError("bad loss")'
    ended = train(job, tmp_path, ending)
    assert ended.returncode != 0
    view = job.cluster.ended("default/1")
    assert view["state"] == "failed"
    assert view["reason"].startswith("rank 1 on host ")
    assert view["reason"].endswith("exited with code 1; rank 1: ValueError: bad loss")
