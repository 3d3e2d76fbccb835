"""Faults outside the program: distinguished from its own failures, and named."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.conftest import Cluster, wait_until

# A rank that reports to its agent before it ends, as the library does.
REPORTING = """
import json, os, socket, sys
if os.environ["LOCKSTEP_EPOCH"] != "1" and sys.argv[1] != "superseded":
    sys.exit(0)
rank = int(os.environ["RANK"])
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["LOCKSTEP_REPORT"])
fault = {"kind": "fault", "fault": sys.argv[1], "rank": 1 - rank, "text": "said so"}
agent.sendall(json.dumps(fault).encode() + b"\\n")
sys.exit(1)
"""

# Gloo ends a script in this way if its peer cannot be reached.
PRINTING = """
test "$LOCKSTEP_EPOCH" = 2 && exit 0
echo "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:4" >&2
exit 1
"""

# Rank 1 loses its connections to the other rank, as with a switch that restarts: both live on.
CUT = """
import os, socket
import torch, torch.distributed as dist

def cut_connections():
    store = int(os.environ["MASTER_PORT"])
    for name in os.listdir("/proc/self/fd"):
        try:
            one = socket.socket(fileno=os.dup(int(name)))
            if one.family != socket.AF_UNIX and one.getpeername()[1] != store:
                one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # no connection

dist.init_process_group("gloo")
for number in range(100):
    if number == 50 and os.environ["LOCKSTEP_EPOCH"] == "1" and dist.get_rank() == 1:
        cut_connections()
    dist.all_reduce(torch.ones(8))
# Gloo may report the end of a peer that leaves before this rank has read its last message.
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    store.set("ended", "")
    store.wait(["left"])
else:
    store.wait(["ended"])
    store.set("left", "")
# Without it, a thread of Gloo that outlives the interpreter aborts the process now and then.
dist.destroy_process_group()
"""


def causes(view: dict) -> list[str]:
    return [attempt["cause"] for attempt in view["attempts"]]


def test_a_lost_connection_is_retried_as_a_loss_and_both_its_ends_are_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(REPORTING)
    run = cluster.submit("-n", "2", "--", "python", str(program), "connection_lost")
    view = cluster.ended(run)
    assert view["state"] == "succeeded"
    assert causes(view) == ["rank_lost", "ok"]
    reason = view["attempts"][0]["reason"]
    assert "the connection from rank" in reason and "rank 0" in reason and "rank 1" in reason


def test_a_superseded_run_fails_without_a_retry(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(REPORTING)
    run = cluster.submit("--retries", "3", "--", "python", str(program), "superseded")
    view = cluster.ended(run)
    assert view["state"] == "failed" and causes(view) == ["superseded"]
    assert "said so" in view["reason"]


WRITING = """
import os, sys, time, torch, lockstep
model = lockstep.shard(torch.nn.Sequential(torch.nn.Linear(2, 2)))
kept = lockstep.Checkpoints(
    sys.argv[1], model, torch.optim.AdamW(model.parameters()), write=True
)
print("opened", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


def test_a_run_whose_folder_another_run_writes_is_refused_and_told_whose_it_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    program, folder, gate = tmp_path / "program.py", tmp_path / "checkpoints", tmp_path / "gate"
    program.write_text(WRITING)
    submission = ["--retries", "3", "--", "python", str(program), str(folder), str(gate)]
    first = cluster.submit(*submission)
    wait_until("the first writes there", lambda: "opened" in cluster.logs(first))
    second = cluster.submit(*submission)
    view = cluster.ended(second)
    gate.touch()
    assert view["state"] == "failed" and causes(view) == ["refused"]
    assert f"{second} was refused: {first} (attempt 1, on " in view["reason"]
    assert f"writes to {folder}; give this run a folder of its own" in view["reason"]
    for words in (["ps"], ["show", second]):
        assert "was refused" in cluster.ok(*words)
    assert cluster.ended(first)["state"] == "succeeded"


def test_two_paths_of_one_checkpoint_folder_are_known_at_submission(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    first = cluster.submit("--checkpoint-folder", str(tmp_path / "real"), "--", "sleep", "1000")
    through_a_link = cluster.command(
        "run", "--detach", "--checkpoint-folder", "link/../link", "--", "true", cwd=tmp_path
    )
    assert f"{first} writes to {tmp_path / 'real'}" in through_a_link.stderr
    by_default = cluster.submit("--", "sleep", "1000")
    taken = cluster.show(by_default)["checkpoint_folder"]
    refused = cluster.command("run", "--detach", "--checkpoint-folder", taken, "--", "true")
    assert f"{by_default} writes to {taken}" in refused.stderr


def test_a_script_whose_library_prints_that_its_peer_is_gone_is_retried(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "--", "sh", "-c", PRINTING)
    view = cluster.ended(run)
    assert causes(view) == ["rank_lost", "ok"]
    assert "Connection closed by peer" in view["attempts"][0]["reason"]
    once = cluster.submit("--rank-loss-retries", "0", "-n", "2", "--", "sh", "-c", PRINTING)
    assert cluster.ended(once)["state"] == "failed"


def test_a_script_over_gloo_whose_connections_are_cut_is_tried_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(CUT)
    run = cluster.submit("-n", "2", "--retries", "0", "--", sys.executable, str(program))
    view = cluster.ended(run)
    assert causes(view) == ["rank_lost", "ok"], [each["reason"] for each in view["attempts"]]
    assert "gloo" in view["attempts"][0]["reason"]


def test_a_stopped_rank_is_named_while_its_run_goes_on(cluster: Cluster) -> None:
    run = cluster.submit("-n", "2", "-g", "2", "--", "sleep", "1000")
    process = next(rank["pid"] for rank in cluster.running_ranks(run) if rank["rank"] == 2)
    os.kill(process, signal.SIGSTOP)
    wait_until("ps names it", lambda: "rank 2 is stopped (SIGSTOP" in cluster.ok("ps"))
    assert "waits for   rank 2 is stopped" in cluster.ok("show", run)
    os.kill(process, signal.SIGCONT)
    wait_until("ps does not any more", lambda: "is stopped" not in cluster.ok("ps"))
    cluster.ok("stop", run, "--wait")
