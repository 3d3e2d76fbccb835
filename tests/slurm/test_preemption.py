"""Jobs that Slurm ends for others, or at their time limit."""

from __future__ import annotations

from tests.slurm.conftest import SlurmCluster

from tests.conftest import wait_until

SAVES = "trap 'echo saved >&2; exit 0' TERM; echo begun >&2; while :; do sleep 0.1; done"


def test_a_preempted_run_saves_in_the_grace_time_and_goes_on_later(served: SlurmCluster) -> None:
    run = served.submit("-n", "2", "--", "sh", "-c", SAVES)
    wait_until("both ranks have begun", lambda: "\n".join(served.logs(run)).count("begun") == 2)
    urgent = served.slurm.ok(
        *("sbatch", "--parsable", "-p", "urgent", "-N8", "--exclusive"),
        *("--output=/dev/null", "--wrap", "sleep 600"),
    ).strip()
    try:
        wait_until("a second attempt waits", lambda: len(served.show(run)["attempts"]) == 2)
        first, _ = served.show(run)["attempts"]
        assert first["cause"] == "node_stopped"
        assert "\n".join(served.logs(run)).count("saved") == 2
        wait_until("Slurm's reason is shown", lambda: "queue" in served.ok("why", run))
    finally:
        served.slurm.ok("scancel", urgent)
    served.running_ranks(run)


def test_a_job_near_its_time_limit_saves(served: SlurmCluster) -> None:
    run = served.submit("--", "sh", "-c", SAVES)
    wait_until("the rank has begun", lambda: "begun" in "\n".join(served.logs(run)))
    (job,) = served.jobs()
    served.slurm.ok("scontrol", "update", f"JobId={job}", "TimeLimit=2")
    wait_until("the rank has saved", lambda: "saved" in "\n".join(served.logs(run)), 120)
    view = wait_until(
        "a second attempt, or the end of the run",
        lambda: (seen := served.show(run)) and (seen["ended"] or seen["attempts"][1:]) and seen,
    )
    assert len(view["attempts"]) == 2, view
    assert view["attempts"][0]["cause"] == "node_stopped"


def test_a_daemon_without_jobs_removes_older_programs(waiting: SlurmCluster) -> None:
    waiting.start()
    (current,) = waiting.shared.glob("**/bin/*/lockstep")
    old = current.parent.parent / "0-1" / "lockstep"
    old.parent.mkdir()
    old.write_text("an older version")
    run = waiting.submit("--", "sleep", "600")
    waiting.running_ranks(run)
    waiting.kill_daemon()
    waiting.start()
    waiting.running_ranks(run)
    assert old.exists(), "an agent may run it"
    waiting.ok("stop", "--wait", run)
    wait_until("the older program is gone", lambda: not old.parent.exists())
    assert current.exists()
