"""Runs as jobs of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

from tests.slurm.conftest import SlurmCluster

from tests.conftest import wait_until


def test_a_run_is_one_job_with_a_step_for_each_node(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "4", "--devices", "2", "--", "sh", "-c", "echo rank $RANK")
    view = served.ended(run)
    assert view["state"] == "succeeded"
    assert len(served.jobs("all")) == 1
    lines = served.logs(run)
    assert all(any(f"rank {rank}" in line for line in lines) for rank in range(8))
    hosts = {node["host"] for node in view["attempts"][0]["nodes"]}
    assert len(hosts) == 4


def test_a_job_shows_no_key_to_other_users(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sleep", "600")
    served.running_ranks(run)
    (script,) = served.shared.glob("**/slurm.sh")
    (job,) = served.jobs()
    text = script.read_text() + served.slurm.ok("scontrol", "show", "job", job)
    (file, *_) = served.shared.glob("**/launch.json")
    launch = json.loads(file.read_text())
    assert file.stat().st_mode & 0o77 == 0
    for key in (served.token(), launch["token"], launch["secret"]):
        assert len(key) > 16
        assert key not in text


def test_why_says_that_slurm_keeps_a_job_in_its_queue(served: SlurmCluster) -> None:
    blocker = served.slurm.ok(
        "sbatch", "--parsable", "--exclusive", "-N8", "--output=/dev/null", "--wrap", "sleep 600"
    ).strip()
    run = served.submit("--", "true")
    wait_until("Slurm's reason is shown", lambda: "Resources" in served.ok("why", run))
    served.slurm.ok("scancel", blocker)
    assert served.ended(run)["state"] == "succeeded"


def test_a_run_asks_slurm_for_a_partition_and_further_options(served: SlurmCluster) -> None:
    run = served.submit(
        "--slurm-partition", "other", "--slurm-option=--nice=7", "--", "sleep", "600"
    )
    served.running_ranks(run)
    (job,) = served.jobs()
    shown = served.slurm.ok("scontrol", "show", "job", job)
    assert "Partition=other" in shown
    assert "Nice=7" in shown


def test_a_job_has_the_cores_and_the_memory_of_the_run(served: SlurmCluster) -> None:
    run = served.submit("--cores", "3", "--memory", "100 MiB", "--", "sleep", "600")
    served.running_ranks(run)
    (job,) = served.jobs()
    shown = served.slurm.ok("scontrol", "show", "job", job)
    assert "CPUs/Task=3" in shown
    assert "MinMemoryNode=100M" in shown


def test_a_script_for_sbatch_keeps_its_requests(served: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -p other --switches=1@0:05\nsrun sleep 600\n")
    run = served.submit(str(script))
    served.running_ranks(run)
    (job,) = served.jobs()
    assert "Partition=other" in served.slurm.ok("scontrol", "show", "job", job)
    assert served.show(run)["spec"]["slurm"]["switches"] == "1@0:05"


def test_an_option_that_lockstep_sets_is_refused(served: SlurmCluster) -> None:
    done = served.command("run", "--detach", "--slurm-option=--nodel=n1", "--", "true")
    assert done.returncode == 2
    assert "slurm: options: --nodelist is no option of a run" in done.stderr


def test_stop_ends_the_job(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sleep", "600")
    served.running_ranks(run)
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"
    wait_until("Slurm has no job of the run", lambda: not served.jobs())


def test_stop_takes_a_pending_job_out_of_the_queue(served: SlurmCluster) -> None:
    blocker = served.slurm.ok(
        "sbatch", "--parsable", "--exclusive", "-N8", "--output=/dev/null", "--wrap", "sleep 600"
    ).strip()
    run = served.submit("--", "true")
    wait_until("Slurm has the job", lambda: served.jobs("pending"))
    served.ok("stop", run)
    assert served.ended(run)["state"] == "cancelled"
    wait_until("Slurm has no job of the run", lambda: not served.jobs())
    served.slurm.ok("scancel", blocker)
