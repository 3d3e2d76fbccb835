"""A rank that hangs is distinguished from one that is dead."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.conftest import Cluster, wait_until

# The first attempt runs without end, the next one ends at once.
REPORTING = """
import os, time, lockstep
step = 0
while os.environ["LOCKSTEP_EPOCH"] == "1":
    lockstep.progress(step, 1000000)
    step += 1
    time.sleep(0.02)
"""


def submit(cluster: Cluster, folder: Path, hang_after: str = "3s") -> str:
    """Two nodes of two ranks that report progress."""
    (folder / "program.py").write_text(REPORTING)
    file = folder / "run.yaml"
    file.write_text(
        f"command: [python, {folder / 'program.py'}]\n"
        f"nodes: 2\ndevices: 2\nhang_after: {hang_after}\n"
    )
    return cluster.submit(str(file))


def working_ranks(cluster: Cluster, run: str) -> dict[int, int]:
    """Process by rank, once there is progress."""
    ranks = cluster.running_ranks(run)
    wait_until("there is progress", lambda: (cluster.show(run)["progress"] or {}).get("step"))
    return {rank["rank"]: rank["pid"] for rank in ranks}


def test_a_stopped_rank_is_found_hung_and_named_and_the_next_attempt_finishes(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = submit(cluster, tmp_path)
    os.kill(working_ranks(cluster, run)[2], signal.SIGSTOP)
    view = cluster.ended(run)
    assert view["state"] == "succeeded"
    first, second = view["attempts"]
    assert (first["cause"], second["cause"]) == ("hung", "ok")
    assert "rank 2" in first["reason"] and "stopped" in first["reason"]


def test_a_killed_rank_is_lost_and_not_hung_and_seen_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = submit(cluster, tmp_path)
    process = working_ranks(cluster, run)[2]
    os.kill(process, signal.SIGKILL)
    killed = time.monotonic()

    def state() -> str:
        nodes = cluster.show(run)["attempts"][0]["nodes"]
        return next(r["state"] for n in nodes for r in n["ranks"] if r["pid"] == process)

    wait_until("`lockstep show` says so", lambda: state() == "killed")
    seconds = time.monotonic() - killed
    print(f"{seconds:.3f} s from a rank's death to its state in `lockstep show`")
    # 1 s on a machine that does nothing else (see ./dev bench survive); an agent that sends no
    # report is lost after 30 s.
    assert seconds < 20
    view = cluster.ended(run)
    assert [attempt["cause"] for attempt in view["attempts"]] == ["rank_lost", "ok"]
    assert "rank 2" in view["attempts"][0]["reason"]


def test_a_rank_that_never_reported_is_not_watched(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("command: [sleep, '3']\nhang_after: 1s\n")
    view = cluster.ended(cluster.submit(str(file)))
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
