"""Ranks of other launchers report to a daemon without `lockstep run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.calls import bearer, call, user_token

from tests.conftest import BUILD, Cluster, reserved_port, wait_until

SECONDS = 60
PYTHON = str(BUILD / "venv" / "bin" / "python")
LAUNCHER_PREFIXES = (
    "SLURM_",
    "OMPI_",
    "PMI",
    "MPI_",
    "LOCKSTEP_",
    "MASTER_",
    "TORCHELASTIC_",
    "ACCELERATE_",
    "CROSS_",
    "RAY_",
)
TRAIN = """
import lockstep
rank = {rank}
for step in range(1, 4):
    lockstep.log({{"loss": 1.0 / step + rank}}, step=step)
    lockstep.progress(step, 3)
"""


class Job:
    """Starts ranks as a launcher would, with a folder for the agents of one host."""

    def __init__(self, cluster: Cluster, url: str | None = None) -> None:
        self.cluster = cluster
        self.folder = Path(tempfile.mkdtemp(dir="/tmp"))  # short: sockets are in it
        self.url = url or cluster.url()
        self.token_file = cluster.home / "token"
        self.ranks: list[subprocess.Popen[str]] = []

    def environment(self, **variables: object) -> dict[str, str]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(LAUNCHER_PREFIXES)}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            kept.pop(name, None)
        return {
            **kept,
            "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(self.folder),
            "HOME": str(self.folder),
            "LOCKSTEP_URL": self.url,
            "LOCKSTEP_TOKEN_FILE": str(self.token_file),
            **{name: str(value) for name, value in variables.items()},
        }

    def start(self, program: str, **variables: object) -> subprocess.Popen[str]:
        rank = subprocess.Popen(
            [PYTHON, "-c", program],
            env=self.environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ranks.append(rank)
        return rank

    def output(self, program: str, **variables: object) -> tuple[str, str]:
        """The output of a process that ends by itself."""
        return self.start(program, **variables).communicate(timeout=SECONDS)

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.communicate(timeout=SECONDS)
        for agent in agents_in(self.folder):
            os.kill(agent, signal.SIGKILL)
        shutil.rmtree(self.folder)


def agents_in(folder: Path) -> list[int]:
    """The agents of jobs whose folders are there."""
    mark = f"XDG_RUNTIME_DIR={folder}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_agent = b"agent\0--attach" in (entry / "cmdline").read_bytes()
            if is_agent and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def torchrun_variables(rank: int, size: int, local_size: int, job: str = "7") -> dict[str, object]:
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank % local_size,
        "LOCAL_WORLD_SIZE": local_size,
        "MASTER_ADDR": "node-0",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RUN_ID": job,
    }


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def job(cluster: Cluster, stack: ExitStack) -> Job:
    job = Job(cluster)
    stack.callback(job.close)
    return job


def ranks_of(view: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {r["rank"]: r for node in view["attempts"][0]["nodes"] for r in node["ranks"]}


def await_run(cluster: Cluster, run: str) -> None:
    wait_until(f"{run} is there", lambda: cluster.command("show", run).returncode == 0)


def losses(cluster: Cluster, run: str) -> dict[int, list[float]]:
    series = json.loads(cluster.ok("metrics", run, "--name", "loss", "--each-rank", "--json"))[
        "series"
    ]
    return {each["rank"]: [point["value"] for point in each["points"]] for each in series}


def test_ranks_of_a_real_torchrun_are_a_run_that_succeeds(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    checkpoint = f"lockstep.checkpoint(3, {str(tmp_path)!r})\n"
    script.write_text("import os\n" + TRAIN.format(rank='int(os.environ["RANK"])') + checkpoint)
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [*torchrun, str(script)],
        env=job.environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("lockstep: this run is default/1 on ") == 1
    assert ended.stdout == ""
    view = job.cluster.ended("default/1")
    assert view["state"] == "succeeded"
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["name"] == "train"
    assert view["launcher"] == "torchrun"
    assert view["progress"]["step"] == 3
    assert view["checkpoints"][0]["path"] == str(tmp_path)
    assert losses(job.cluster, "default/1") == {
        0: [1.0, 0.5, pytest.approx(1 / 3)],
        1: [2.0, 1.5, pytest.approx(4 / 3)],
    }
    shown = job.cluster.ok("show", "default/1")
    assert "launcher    torchrun\n" in shown
    assert "of at most" not in shown
    told = job.cluster.command("logs", "default/1")
    assert (told.stdout, told.stderr) == (
        "",
        "lockstep: default/1 was started by torchrun, which has the output of its ranks\n",
    )
    wait_until("the agent has gone", lambda: not agents_in(job.folder))
    assert not list(job.folder.glob("lockstep-*"))


def test_the_end_of_each_rank_is_known(job: Job) -> None:
    endings = {
        0: "import time; time.sleep(60)",
        1: "raise SystemExit(3)",
        2: "raise ValueError('bad loss')",
        3: "import time; time.sleep(60)",
    }
    for rank, ending in endings.items():
        program = TRAIN.format(rank=rank) + ending
        job.start(program, **torchrun_variables(rank, size=4, local_size=4))
    run = "default/1"
    wait_until(
        "all ranks are known and two have ended",
        lambda: (
            job.cluster.command("show", run).returncode == 0
            and len(found := ranks_of(job.cluster.show(run))) == 4
            and [found[rank]["state"] for rank in (1, 2)] == ["exited"] * 2
        ),
    )
    refused = job.cluster.command("stop", run)
    assert refused.returncode != 0
    assert "default/1 was started by torchrun, and not by Lockstep: end it there" in refused.stderr
    job.ranks[3].kill()
    job.ranks[0].terminate()
    view = job.cluster.ended(run)
    ends = {rank: (r["state"], r["code"]) for rank, r in ranks_of(view).items()}
    assert ends[1] == ("exited", 3)
    assert ends[2] == ("exited", 1)
    assert ends[0][0] == ends[3][0] == "killed"
    assert view["state"] == "failed"
    assert "rank 2: ValueError: bad loss" in view["reason"]
    assert job.cluster.command("resume", run).returncode != 0


def test_two_hosts_are_one_run_with_two_nodes(job: Job, cluster: Cluster, stack: ExitStack) -> None:
    other = Job(cluster)
    stack.callback(other.close)
    waits = "input()"
    for host, rank in ((job, 0), (other, 1)):
        host.start(TRAIN.format(rank=rank) + waits, **torchrun_variables(rank, 2, local_size=1))
    wait_until(
        "both nodes are there",
        lambda: (
            (shown := cluster.command("show", "default/1", "--json")).returncode == 0
            and len(json.loads(shown.stdout)["attempts"][0]["nodes"]) == 2
        ),
    )
    wait_until("both have reported", lambda: set(losses(cluster, "default/1")) == {0, 1})
    for rank in (*job.ranks, *other.ranks):
        rank.kill()
    assert cluster.ended("default/1")["spec"]["nodes"] == 2
    assert len(json.loads(cluster.ok("ps", "--json"))["runs"]) == 1


PLACE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}


def deepspeed_variables(rank: int) -> dict[str, object]:
    """As deepspeed/launcher/launch.py of DeepSpeed 0.18 and 0.19 sets them."""
    host = {"WORLD_SIZE": 2, "CROSS_RANK": 0, "CROSS_SIZE": 1, "LOCAL_SIZE": 2}
    return {**PLACE, **host, "RANK": rank, "LOCAL_RANK": rank}


def ray_variables(rank: int) -> dict[str, object]:
    """As ray/train/torch/config.py of Ray 2 sets them, and Ray itself in each worker."""
    worker = {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "NODE_RANK": 0, "RAY_JOB_ID": "01000000"}
    return {**PLACE, **worker, "RANK": rank, "LOCAL_RANK": rank}


def accelerate_variables(rank: int) -> dict[str, object]:
    """Those of torchrun, and those of the process in which accelerate calls it."""
    process = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO"}
    return {**torchrun_variables(rank, size=2, local_size=2), **process}


def open_mpi_variables(rank: int) -> dict[str, object]:
    """As Open MPI 4 and 5 set them in each process."""
    names = {"RANK": rank, "SIZE": 2, "LOCAL_RANK": rank, "LOCAL_SIZE": 2, "NODE_RANK": rank}
    world = {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}
    return {**world, "PMIX_NAMESPACE": "prterun-gpu1-77@1", "PMIX_RANK": rank}


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("deepspeed", deepspeed_variables),
        ("Ray", ray_variables),
        ("accelerate launch", accelerate_variables),
        ("mpirun of Open MPI", open_mpi_variables),
    ],
)
def test_ranks_with_the_variables_of_a_launcher_are_one_run(
    job: Job, launcher: str, variables: Callable[[int], dict[str, object]]
) -> None:
    for rank in (0, 1):
        job.start(TRAIN.format(rank=rank) + "lockstep.finish()", **variables(rank))
    told = "".join(rank.communicate(timeout=SECONDS)[1] for rank in job.ranks)
    assert told.count("lockstep: this run is default/1 on ") == 1
    view = job.cluster.ended("default/1")
    assert view["reason"] == "all 2 ranks exited with code 0"
    assert view["launcher"] == launcher
    assert set(losses(job.cluster, "default/1")) == {0, 1}
    assert len(json.loads(job.cluster.ok("ps", "--json"))["runs"]) == 1


RAY_TRAIN = """
import sys, types
train = sys.modules["ray.train"] = types.ModuleType("ray.train")
class Context:
    def get_experiment_name(self):
        return "linear"
"""


@pytest.mark.parametrize(
    ("context", "more", "name"),
    [
        ("train.get_context = Context", {}, "linear"),
        ("train.get_context = Context", {"LOCKSTEP_RUN_NAME": "bert"}, "bert"),
        # Ray imports the module in its other workers, too.
        (
            "def refuse(): raise RuntimeError('no training')\ntrain.get_context = refuse",
            {},
            "python",
        ),
    ],
)
def test_a_run_of_ray_has_the_name_of_its_training(
    job: Job, context: str, more: dict[str, object], name: str
) -> None:
    one = {**ray_variables(0), "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1}
    job.output(RAY_TRAIN + context + TRAIN.format(rank=0), **one, **more)
    assert job.cluster.ended("default/1")["name"] == name


def test_a_program_without_a_launcher_is_a_run_of_one_rank(job: Job) -> None:
    child = "import os; pid = os.fork() or os._exit(0); os.waitpid(pid, 0)\n"
    names = {"LOCKSTEP_RUN_NAME": "bert", "LOCKSTEP_PROJECT": "nlp"}
    told = job.output(TRAIN.format(rank=0) + child, **names)
    assert told == ("", f"lockstep: this run is nlp/1 on {job.url}\n")
    view = job.cluster.ended("nlp/1")
    assert view["state"] == "succeeded"
    assert view["reason"] == "its rank exited with code 0"
    assert view["name"] == "bert"


FAKE_GPUS = "".join(f"{gpu} present 1\n{gpu} power {100 + gpu}000\n" for gpu in (0, 1))


def test_a_run_has_the_telemetry_of_its_host_and_of_the_gpus_of_its_ranks(
    job: Job, tmp_path: Path
) -> None:
    (tmp_path / "nvml").write_text(FAKE_GPUS)
    rank = job.start(
        TRAIN.format(rank=0) + "input()",
        LD_LIBRARY_PATH=BUILD / "lib" / "fake_nvml_new",
        LOCKSTEP_FAKE_NVML=tmp_path / "nvml",
        CUDA_VISIBLE_DEVICES=1,
    )
    await_run(job.cluster, "default/1")

    def telemetry() -> dict[str, float]:
        """The newest readings, by the API."""
        path = "/api/v1/runs/default/1/metrics?node=0"
        found = call(job.cluster, "GET", path, headers=bearer(user_token(job.cluster))).json()
        return {each["name"]: each["points"][-1]["value"] for each in found["series"]}

    named = {"cpu/utilization_percent", "memory/available_bytes", "device1/power_watts"}
    wait_until("readings of host and device", lambda: named <= telemetry().keys())
    readings = telemetry()
    assert readings["memory/available_bytes"] > 0
    assert readings["device1/power_watts"] == 101
    assert not any(name.startswith("device0/") for name in readings), "another job's GPU"
    assert losses(job.cluster, "default/1") == {0: [1.0, 0.5, pytest.approx(1 / 3)]}
    rank.communicate("\n", timeout=SECONDS)
    assert job.cluster.ended("default/1")["state"] == "succeeded"
    listed = job.cluster.ok("metrics", "default/1", "--node", "0")
    assert "cpu/utilization_percent" in listed and "device1/power_watts" in listed
    assert "device1/power_watts" in job.cluster.ok(
        "plot", "default/1", "device1/power_watts", "--node", "0"
    )


STEPS = """
import itertools, os, lockstep, torch
import torch.distributed as dist
dist.init_process_group("lockstep", init_method="file://{place}/store", rank=0, world_size=1)
model = torch.nn.Linear(3, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in itertools.count():
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    lockstep.log({{"loss": 1.0}}, step=step)
    if os.path.exists("{place}/gate"):
        break
"""


def test_steps_of_a_rank_that_trains_with_our_backend_have_times_and_flops(
    job: Job, tmp_path: Path
) -> None:
    rank = job.start(STEPS.format(place=tmp_path))
    await_run(job.cluster, "default/1")

    def metrics() -> dict[str, float]:
        listed = json.loads(job.cluster.ok("metrics", "default/1", "--json"))["series"]
        return {each["name"]: each["points"][-1]["value"] for each in listed if each["points"]}

    named = {"step_seconds", "compute_seconds", "flops", "loss"}
    wait_until("metrics of steps", lambda: named <= metrics().keys())
    (tmp_path / "gate").touch()
    assert rank.communicate(timeout=SECONDS)[0] == "", "no metric is printed"
    assert metrics()["flops"] == 2 * (2 * 2 * 3 * 5)


MEDIA = """
import base64, lockstep
pixel = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="
)
lockstep.log({"sample": lockstep.Image(base64.b64decode(pixel), "a pixel"), "loss": 1.0}, step=4)
lockstep.log({"weights": lockstep.Histogram(counts=[1, 2], edges=[0, 1, 2])}, step=4)
"""


def test_images_and_histograms_of_a_rank_are_kept_with_its_run(job: Job) -> None:
    job.output(MEDIA)
    run = job.cluster.ended("default/1")["id"]
    headers = bearer(user_token(job.cluster))

    def logged(kind: str) -> list[dict[str, Any]]:
        found = call(job.cluster, "GET", f"/api/v1/runs/{run}/{kind}", headers=headers).json()[kind]
        assert isinstance(found, list)
        return found

    wait_until("images and histograms", lambda: logged("images") and logged("histograms"))
    assert logged("images")[0]["caption"] == "a pixel"
    assert logged("histograms")[0]["counts"] == [1, 2]


def test_a_rank_that_finishes_has_succeeded_even_if_its_process_is_killed(job: Job) -> None:
    rank = job.start(TRAIN.format(rank=0) + "lockstep.finish(); input()")
    await_run(job.cluster, "default/1")
    assert job.cluster.ended("default/1")["state"] == "succeeded"
    assert rank.poll() is None
    rank.kill()
    again = TRAIN.format(rank=0) + "lockstep.finish()\n" + TRAIN.format(rank=0).partition("\n")[2]
    told = job.output(again)[1]
    assert told.count("this run is ") == told.count("\n") == 2
    assert len(losses(job.cluster, job.cluster.ended("default/2")["id"])[0]) == 3
    assert len(losses(job.cluster, job.cluster.ended("default/3")["id"])[0]) == 3


@pytest.mark.parametrize("error", ["ValueError('bad loss')", "'ValueError: bad loss'"])
def test_a_rank_that_finishes_with_an_error_has_failed(job: Job, error: str) -> None:
    assert job.output(TRAIN.format(rank=0) + f"lockstep.finish({error})")[1].count("\n") == 1
    view = job.cluster.ended("default/1")
    assert view["state"] == "failed"
    assert view["reason"].endswith("exited with code 1; rank 0: ValueError: bad loss")


def test_reports_wait_for_a_daemon_that_is_away(idle: Cluster, stack: ExitStack) -> None:
    port = stack.enter_context(reserved_port())
    idle.serve("2x2", "--port", str(port))
    idle.ok("serve", "--stop")
    job = Job(idle, f"http://127.0.0.1:{port}")
    stack.callback(job.close)
    stdout, stderr = job.output(TRAIN.format(rank=0))
    assert stdout == ""
    assert stderr.count("training goes on, and its reports wait in ") == 1
    idle.serve("2x2", "--port", str(port))
    await_run(idle, "default/1")
    assert idle.ended("default/1")["state"] == "succeeded"
    assert losses(idle, "default/1") == {0: [1.0, 0.5, pytest.approx(1 / 3)]}


def test_a_wrong_token_is_told_once_by_rank_zero(job: Job, tmp_path: Path) -> None:
    job.token_file = tmp_path / "token"
    job.token_file.write_text("0" * 64)
    for rank in (0, 1):
        job.start(TRAIN.format(rank=rank), **torchrun_variables(rank, size=2, local_size=2))
    told = [rank.communicate(timeout=SECONDS)[1] for rank in job.ranks]
    assert [rank.returncode for rank in job.ranks] == [0, 0]
    assert told[1] == ""
    assert told[0].count("\n") == 1
    assert "training goes on" in told[0]
    assert json.loads(job.cluster.ok("ps", "--json"))["runs"] == []


@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({"LOCKSTEP_URL": "head"}, "LOCKSTEP_URL: 'head' is not an address"),
        ({"LOCKSTEP_TOKEN_FILE": ""}, "LOCKSTEP_TOKEN_FILE is not"),
        ({"PATH": "/nowhere"}, "there is no program lockstep in PATH"),
    ],
)
def test_without_an_agent_metrics_are_printed(
    job: Job, variables: dict[str, object], warning: str
) -> None:
    stdout, stderr = job.output(TRAIN.format(rank=0), **variables)
    assert stdout == "step 1  loss 1\nstep 2  loss 0.5\nstep 3  loss 0.333333\n"
    assert warning in stderr
    assert stderr.endswith("training goes on, and metrics are printed\n")
    assert stderr.count("\n") == 1


def test_the_login_to_a_daemon_is_its_token(job: Job) -> None:
    login = subprocess.run(
        [str(BUILD / "bin" / "lockstep"), "login", job.url],
        input=job.cluster.token(),
        env={**job.environment(), "LOCKSTEP_URL": "", "LOCKSTEP_TOKEN_FILE": ""},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert login.returncode == 0, login.stderr
    stderr = job.output(TRAIN.format(rank=0), LOCKSTEP_TOKEN_FILE="")[1]
    assert "this run is default/1 on " in stderr
    assert job.cluster.ended("default/1")["state"] == "succeeded"
