"""Runs in a partition that other jobs use too: a real Slurm chooses their hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.conftest import SlurmCluster
from tests.slurm.testbed import Slurm

from tests.conftest import wait_until

ROOT = Path(__file__).parents[2]


class SharedSlurm(SlurmCluster):
    """Its daemon leaves the choice of hosts to Slurm."""

    def start(self, *words: str) -> None:
        super().start("--slurm-shared", *words)

    def foreign_job(self, hosts: str) -> str:
        """A job of another user of the partition, alone on these hosts."""
        words = ("--exclusive", "-w", hosts, "--time=30", "--output=/dev/null")
        return self.slurm.ok("sbatch", "--parsable", *words, "--wrap", "sleep 600").strip()

    def hosts_of(self, run: str) -> list[str]:
        """The hosts of the newest attempt, once the daemon knows them."""
        hosts = wait_until(f"the hosts of {run} are known", lambda: self._hosts_of(run))
        return list(hosts)

    def _hosts_of(self, run: str) -> list[str]:
        hosts = [node["host"] for node in self.show(run)["attempts"][-1]["nodes"]]
        return hosts if all(hosts) else []


@pytest.fixture
def shared(slurm: Slurm, tmp_path: Path) -> Iterator[SharedSlurm]:
    """Its daemon is not started yet."""
    cluster = SharedSlurm(tmp_path, slurm)
    yield cluster
    if (cluster.home / "daemon.json").exists():
        cluster.close()
    cluster.slurm.ok("scancel", "--user=root")


def test_a_gang_trains_on_hosts_that_slurm_chose_beside_another_job(shared: SharedSlurm) -> None:
    shared.foreign_job("n2,n5")
    shared.start()
    program = [sys.executable, str(ROOT / "examples/ddp/train.py"), "--backend", "lockstep"]
    run = shared.submit("--nodes", "4", "--devices", "2", "--", *program)
    shared.running_ranks(run)
    hosts = shared.hosts_of(run)
    assert len(set(hosts)) == 4
    assert not {"n2", "n5"} & set(hosts)
    used = [line.split()[0] for line in shared.ok("host", "ls").splitlines() if run in line]
    assert used == sorted(hosts), "they hold the run's devices"
    view = shared.ended(run)
    assert view["state"] == "succeeded", shared.logs(run)
    assert len(view["attempts"]) == 1
    assert any("loss" in line for line in shared.logs(run, "--rank", "0"))
    assert len(shared.jobs("all")) == 1


def test_a_run_waits_in_slurms_queue_over_a_daemons_death_and_outlives_a_host(
    shared: SharedSlurm,
) -> None:
    foreign = shared.foreign_job("n[1-8]")
    shared.start()
    run = shared.submit(
        "--nodes", "4", "--", "sh", "-c", "echo on $LOCKSTEP_HOST_ID; exec sleep 600"
    )
    wait_until(
        "Slurm has estimated the start", lambda: "expects the start" in shared.ok("why", run)
    )
    assert "Slurm keeps job" in shared.ok("queue")
    assert "node 0 on -:" in shared.ok("show", run)
    shared.kill_daemon()
    shared.slurm.ok("scancel", foreign)
    wait_until("Slurm starts the job without the daemon", lambda: shared.jobs("running"))
    shared.ok("serve", "--again", "--detach")
    shared.running_ranks(run)
    first = shared.hosts_of(run)
    assert len(shared.jobs("all")) == 1
    wait_until("it no longer waits", lambda: shared.show(run)["reason"] == "")
    wait_until("each rank has its host", lambda: len(shared.logs(run)) == 4)
    assert sorted(line.split()[-1] for line in shared.logs(run)) == sorted(first)
    lost = first[1]
    shared.slurm.kill_host(lost)
    try:
        wait_until("a second attempt runs", lambda: len(shared.show(run)["attempts"]) == 2)
        shared.running_ranks(run)
        assert lost not in shared.hosts_of(run)
        assert f"node 1 on host {lost}" in shared.show(run)["attempts"][0]["reason"]
        (_, job) = shared.jobs_of(run)
        assert f"ExcNodeList={lost}" in shared.slurm.ok("scontrol", "show", "job", job)
    finally:
        shared.slurm.revive_host(lost)


def test_the_gpus_of_a_node_are_those_of_its_step_and_the_setting_bounds_the_jobs(
    shared: SharedSlurm,
) -> None:
    shared.start("--slurm-partition", "gpus", "--set", "slurm_jobs_max=2")
    program = ["sh", "-c", "echo $LOCKSTEP_HOST_ID:$CUDA_VISIBLE_DEVICES:; exec sleep 600"]
    runs = [shared.submit("--device-kind", "gpu", "-g", "2", "--", *program) for _ in range(3)]
    for run in runs[:2]:
        shared.running_ranks(run)
    wait_until("they have begun", lambda: all(len(shared.logs(run)) == 2 for run in runs[:2]))
    assert {shared.hosts_of(run)[0] for run in runs[:2]} == {"g1", "g2"}
    lines = "\n".join(line for run in runs[:2] for line in shared.logs(run))
    assert all(f"{host}:0,1:" in lines for host in ("g1", "g2")), lines
    assert "slurm_jobs_max" in shared.ok("why", runs[2])
    shared.ok("stop", "--wait", runs[0])
    shared.running_ranks(runs[2])


def test_slurm_counts_the_types_of_a_host_with_several(shared: SharedSlurm) -> None:
    shared.start("--slurm-partition", "types")
    program = ["sh", "-c", "echo gpus $CUDA_VISIBLE_DEVICES.; exec sleep 600"]
    first = shared.submit("--slurm-gpu-type=h100", "-g", "2", "--", *program)
    shared.running_ranks(first)
    wait_until("it has begun", lambda: shared.logs(first))
    assert "gpus 2,3." in shared.logs(first)[0], "the devices of this type"
    other = shared.submit("--slurm-gpu-type=a100", "-g", "2", "--", *program)
    shared.running_ranks(other)
    waiting = shared.submit("--slurm-gpu-type=h100", "--", "true")
    wait_until("it waits", lambda: "Resources" in shared.ok("why", waiting))
    shared.ok("stop", "--wait", other)
    assert "Resources" in shared.ok("why", waiting), "the GPUs of the other type do not serve it"
    shared.ok("stop", "--wait", first)
    assert shared.ended(waiting)["state"] == "succeeded"


def test_a_run_with_exclusive_has_its_host_alone(shared: SharedSlurm) -> None:
    shared.start("--slurm-partition", "gpus")
    program = ["sh", "-c", "echo gpus $CUDA_VISIBLE_DEVICES.; exec sleep 600"]
    first = shared.submit("--slurm-option=--exclusive", "--slurm-gpu-type=a100", "--", *program)
    shared.running_ranks(first)
    assert shared.hosts_of(first) == ["g1"]
    wait_until("it has begun", lambda: shared.logs(first))
    assert "gpus 0." in shared.logs(first)[0], "the devices that it asked for"
    second = shared.submit("--slurm-gpu-type=a100", "--", "true")
    wait_until("it waits", lambda: "Resources" in shared.ok("why", second))
    shared.ok("stop", "--wait", first)
    assert shared.ended(second)["state"] == "succeeded"


def test_without_the_option_a_restarted_daemon_leaves_the_hosts_of_its_jobs_alone(
    shared: SharedSlurm,
) -> None:
    shared.start()
    first = shared.submit("--nodes", "4", "--", "sleep", "600")
    shared.running_ranks(first)
    hosts = shared.hosts_of(first)
    shared.ok("serve", "--stop")
    SlurmCluster.start(shared)
    assert shared.show(first)["state"] == "running"
    small = shared.submit("--nodes", "4", "--", "sleep", "600")
    shared.running_ranks(small)
    assert not set(hosts) & set(shared.hosts_of(small))
    large = shared.submit("--nodes", "5", "--", "true")
    wait_until("it waits", lambda: f"hosts of {first}" in shared.ok("why", large))
    assert shared.jobs_of(large) == [], "no job of Slurm waits for these hosts"
    shared.ok("stop", "--wait", first, small)
    assert shared.ended(large)["state"] == "succeeded"


def test_shared_partitions_are_those_of_slurm(waiting: SlurmCluster) -> None:
    done = waiting.command("serve", "--slurm-shared")
    assert done.returncode == 2
    assert "are for --engine slurm" in done.stderr
