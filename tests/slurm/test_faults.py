"""Hosts, daemons and programs that fail, with a real Slurm."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

import pytest
from tests.slurm.conftest import SlurmCluster

from tests.conftest import wait_until


def test_a_dead_host_is_left_and_the_run_starts_elsewhere(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sleep", "600")
    served.running_ranks(run)
    lost = served.show(run)["attempts"][0]["nodes"][1]["host"]
    served.slurm.kill_host(lost)
    try:
        wait_until("a second attempt runs", lambda: len(served.show(run)["attempts"]) == 2)
        served.running_ranks(run)
        first, second = served.show(run)["attempts"]
        assert lost not in {node["host"] for node in second["nodes"]}
        assert lost in first["reason"]
        assert "down" in served.ok("host", "ls")
    finally:
        served.slurm.revive_host(lost)


def test_a_daemon_that_was_killed_takes_up_its_jobs(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sh", "-c", "echo begin; sleep 4; echo end")
    served.running_ranks(run)
    served.kill_daemon()
    served.start()
    view = served.ended(run)
    assert view["state"] == "succeeded"
    assert len(view["attempts"]) == 1
    assert len(served.jobs("all")) == 1
    assert sum("end" in line for line in served.logs(run)) == 2


def test_a_daemon_that_dies_after_a_submission_submits_no_second_job(
    served: SlurmCluster,
) -> None:
    blocker = served.slurm.ok(
        "sbatch", "--parsable", "--exclusive", "-N8", "--output=/dev/null", "--wrap", "sleep 600"
    ).strip()
    run = served.submit("--nodes", "2", "--", "true")
    wait_until("Slurm has the job", lambda: served.jobs("pending"))
    served.kill_daemon()
    served.start()
    wait_until("Slurm's reason is shown", lambda: "Resources" in served.ok("why", run))
    served.slurm.ok("scancel", blocker)
    assert served.ended(run)["state"] == "succeeded"
    assert len(served.jobs("all")) == 1


def test_nothing_ends_while_slurmctld_is_away(served: SlurmCluster) -> None:
    run = served.submit("--nodes", "2", "--", "sleep", "600")
    served.running_ranks(run)
    served.slurm.kill("slurmctld", signal.SIGTERM)  # it stores its state
    later = served.submit("--nodes", "2", "--", "true")
    wait_until(
        "the run says why it waits",
        lambda: "Slurm" in served.show(later)["reason"] or "Slurm" in served.ok("why", later),
    )
    served.slurm.start_controller()
    assert served.ended(later)["state"] == "succeeded"
    view = served.show(run)
    assert view["state"] == "running"
    assert len(view["attempts"]) == 1
    assert len(served.jobs("all")) == 2


def test_a_run_waits_while_munge_is_away(served: SlurmCluster) -> None:
    served.slurm.kill("munged")
    run = served.submit("--", "true")
    try:
        wait_until(
            "the daemon says what is missing",
            lambda: "unge" in (served.home / "daemon.log").read_text(),
        )
        assert served.show(run)["state"] in ("queued", "starting", "running")
    finally:
        served.slurm.start_munge()
    assert served.ended(run)["state"] == "succeeded"
    assert len(served.jobs("all")) == 1


def test_a_job_that_slurm_refuses_fails_at_once_with_its_words(waiting: SlurmCluster) -> None:
    waiting.start("--slurm-option=--partition=missing")
    view = waiting.ended(waiting.submit("--", "true"))
    assert view["state"] == "failed"
    assert "invalid partition" in view["reason"]
    assert [attempt["cause"] for attempt in view["attempts"]] == ["refused"], "no retry"
    assert not waiting.jobs("all")


def test_a_partition_that_does_not_exist_is_refused_at_the_start(waiting: SlurmCluster) -> None:
    shared = str(waiting.shared)
    words = ("--engine", "slurm", "--shared", shared, "--slurm-partition", "missing")
    done = waiting.command("serve", *words)
    assert done.returncode != 0
    assert "'missing'" in done.stderr


def test_a_machine_without_the_programs_of_slurm_is_told_to_install_them(
    waiting: SlurmCluster, tmp_path: Path
) -> None:
    waiting.environment["PATH"] = str(tmp_path)
    done = waiting.command("serve", "--engine", "slurm", "--shared", str(waiting.shared))
    assert done.returncode != 0
    assert "install Slurm's client programs" in done.stderr


def test_a_run_waits_while_sbatch_is_missing(waiting: SlurmCluster, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "sbatch":
            (programs / program.name).symlink_to(program)
    waiting.environment["PATH"] = str(programs)
    waiting.start()
    run = waiting.submit("--", "true")
    wait_until("the reason is shown", lambda: "no program sbatch" in waiting.ok("why", run))
    (programs / "sbatch").symlink_to("/usr/bin/sbatch")
    assert waiting.ended(run)["state"] == "succeeded"
    assert len(waiting.show(run)["attempts"]) == 1


def test_a_host_without_the_program_is_named(served: SlurmCluster) -> None:
    (program,) = served.shared.glob("**/bin/*/lockstep")
    program.rename(program.parent / "away")
    run = served.submit("--rank-loss-retries", "0", "--", "true")
    view = served.ended(run)
    assert view["state"] == "failed"
    assert "No such file" in view["reason"]
    assert view["attempts"][0]["nodes"][0]["host"] in view["reason"]


def test_a_full_shared_folder_is_the_reason_of_the_run(waiting: SlurmCluster) -> None:
    size = 256 << 20  # the program and its debug information take 100 MB
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size}", "lockstep-test", str(waiting.shared))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets a test mount nothing")
    try:
        waiting.start()
        filler = waiting.shared / "filler"
        with contextlib.suppress(OSError):
            filler.write_bytes(bytes(size))
        run = waiting.submit("--rank-loss-retries", "0", "--", "true")
        view = waiting.ended(run)
        assert view["state"] == "failed"
        assert "No space left on device" in view["reason"]
        filler.unlink()
        assert waiting.ended(waiting.submit("--", "true"))["state"] == "succeeded"
        waiting.close()
    finally:
        subprocess.run(["umount", "--lazy", str(waiting.shared)], check=True)
