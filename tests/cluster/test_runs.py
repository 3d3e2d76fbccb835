"""A run from the command line to its ranks and back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.conftest import PROGRAM, Cluster, wait_until


def test_ranks_find_the_environment_that_torchrun_gives_them(cluster: Cluster) -> None:
    run = cluster.submit(
        "-n", "2", "-g", "2", "--", "sh", "-c",
        'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK'
        ' $MASTER_ADDR:$MASTER_PORT"',
    )  # fmt: skip
    assert cluster.ended(run)["state"] == "succeeded"
    lines = sorted(line.split("] ")[1] for line in cluster.logs(run))
    assert [line.rsplit(" ", 1)[0] for line in lines] == [
        "0 0 4 2 0", "1 1 4 2 0", "2 0 4 2 1", "3 1 4 2 1",
    ]  # fmt: skip
    addresses = {line.rsplit(" ", 1)[1] for line in lines}
    assert len(addresses) == 1 and not addresses.pop().endswith(":")


def test_each_host_has_an_identity_an_agent_and_a_folder_of_its_own(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "-g", "2", "--", "sh", "-c", "echo host=$LOCKSTEP_HOST_ID")
    view = cluster.ended(run)
    lines = cluster.logs(run)
    hosts = {line.split("host=")[1] for line in lines}
    assert len(hosts) == 2
    nodes = view["attempts"][0]["nodes"]
    assert {node["host"] for node in nodes} == hosts
    assert len({node["agent_pid"] for node in nodes}) == 2
    folder = cluster.attempt_folder(run)
    assert sorted(path.name for path in folder.iterdir()) == ["node-0", "node-1"]


def test_the_exit_code_of_a_followed_run_tells_how_it_ended(cluster: Cluster) -> None:
    done = cluster.command("run", "--", "sh", "-c", "echo out; exit 3")
    assert done.returncode == 1
    assert "out" in done.stdout
    assert "exited with code 3" in done.stderr
    assert cluster.command("run", "--", "true").returncode == 0


def test_a_program_that_its_host_cannot_start_fails_at_once_and_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = tmp_path / "train"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    done = cluster.command("run", "--", str(program))
    assert done.returncode == 1
    assert str(program) in done.stderr


def test_a_run_over_its_time_out_is_ended(cluster: Cluster) -> None:
    done = cluster.command("run", "--timeout", "1s", "--", "sleep", "1000")
    assert done.returncode == 124
    assert "timed_out" in done.stderr


def test_stop_ends_every_process_even_those_that_left_their_session(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "--", "sh", "-c", "setsid sleep 1000 & sleep 1000")
    cluster.running_ranks(run)
    cluster.ok("stop", run, "--reason", "enough")
    view = cluster.ended(run)
    assert view["state"] == "cancelled" and "enough" in view["reason"]
    assert cluster.processes() == []


def test_what_a_killed_agent_leaves_behind_is_ended_within_moments(cluster: Cluster) -> None:
    run = cluster.submit("--", "sh", "-c", "setsid sleep 1000 & sleep 1000")
    cluster.running_ranks(run)
    left = set(wait_until("agent, rank and child", lambda: len(cluster.processes()) > 3
                          and cluster.processes()))  # fmt: skip
    os.kill(cluster.show(run)["attempts"][0]["nodes"][0]["agent_pid"], signal.SIGKILL)
    # Far below the 30 s after which an agent counts as silent.
    wait_until("nothing is left", lambda: not left & set(cluster.processes()), patience=10)
    attempt = wait_until("it is known", lambda: cluster.show(run)["attempts"][0]["ended"]
                         and cluster.show(run)["attempts"][0])  # fmt: skip
    assert attempt["cause"] == "node_lost" and "gave no reason" in attempt["reason"]


def test_a_user_exit_is_retried_only_as_often_as_asked(cluster: Cluster) -> None:
    run = cluster.submit("--retries", "1", "--", "sh", "-c", "echo try $LOCKSTEP_EPOCH; exit 1")
    view = cluster.ended(run)
    assert view["state"] == "failed"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["user_exit", "user_exit"]
    assert cluster.logs(run) == ["try 1", "try 2"]


def test_a_killed_rank_makes_a_new_attempt_by_itself(cluster: Cluster) -> None:
    run = cluster.submit(
        "-n", "2", "-g", "2", "--", "sh", "-c",
        'test "$LOCKSTEP_EPOCH" = 1 && exec sleep 1000; echo again',
    )  # fmt: skip
    cluster.running_ranks(run)
    assert "rank 3" in cluster.ok("kill", run, "--rank", "3")
    view = cluster.ended(run)
    assert view["state"] == "succeeded"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["rank_lost", "ok"]
    assert "rank 3" in view["attempts"][0]["reason"]
    assert len(cluster.logs(run)) == 4


def test_runs_wait_their_turn_and_say_why(cluster: Cluster) -> None:
    first = cluster.submit("-n", "2", "-g", "2", "--", "sleep", "1000")
    cluster.running_ranks(first)
    second = cluster.submit("-n", "1", "--", "true")
    assert first in cluster.wait_for(second, "queued")["reason"]
    cluster.ok("stop", first)
    assert cluster.ended(second)["state"] == "succeeded"


def test_killing_the_daemon_leaves_the_run_alone_and_loses_no_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit(
        "-n", "2", "--", "sh", "-c",
        f"echo before; while ! test -e {gate}; do sleep 0.05; done; echo after",
    )  # fmt: skip
    before = {rank["pid"] for rank in cluster.running_ranks(run)}
    cluster.kill_daemon()
    assert before <= set(cluster.processes())
    gate.touch()
    wait_until("the ranks ended without a daemon", lambda: not before & set(cluster.processes()))
    cluster.serve()
    view = cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
    lines = [line.split("] ")[1] for line in cluster.logs(run)]
    assert sorted(lines) == ["after", "after", "before", "before"]


def test_who_follows_a_run_stays_with_it_through_a_restart_of_the_daemon(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    process = subprocess.Popen(
        [str(PROGRAM), "run", "--", "sh", "-c",
         f"echo before; while ! test -e {gate}; do sleep 0.05; done; echo after"],
        env=cluster.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    cluster.running_ranks("default/1")
    cluster.kill_daemon()
    cluster.serve()
    gate.touch()
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert shown == "before\nafter\n"


def test_ctrl_c_detaches_and_the_run_goes_on(cluster: Cluster) -> None:
    process = subprocess.Popen(
        [str(PROGRAM), "run", "--", "sleep", "1000"],
        env=cluster.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    cluster.running_ranks("default/1")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "lockstep logs -f default/1" in said
    assert cluster.show("default/1")["state"] == "running"


def test_a_run_is_described_by_a_file_and_flags_override_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "name: from-file\nnodes: 2\ncommand: [sh, -c, 'echo $COLOUR']\nenv: {COLOUR: green}\n"
    )
    run = cluster.submit(str(file), "--name", "from-flag")
    view = cluster.ended(run)
    assert view["name"] == "from-flag" and view["spec"]["nodes"] == 2
    assert [line.split("] ")[1] for line in cluster.logs(run)] == ["green", "green"]


def test_metrics_of_a_python_script_arrive_with_nan_kept(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "log.py"
    script.write_text(
        "import lockstep\n"
        "for step in range(5):\n"
        "    lockstep.log({'loss': float('nan') if step == 3 else 5.0 - step}, step=step)\n"
    )
    run = cluster.submit("--", "python", str(script))
    assert cluster.ended(run)["state"] == "succeeded"
    (series,) = json.loads(cluster.ok("metrics", run, "--json"))["series"]
    assert series["name"] == "loss"
    assert [point["value"] for point in series["points"]] == [5.0, 4.0, 3.0, "NaN", 1.0]
    assert "loss" in cluster.ok("plot", run)
