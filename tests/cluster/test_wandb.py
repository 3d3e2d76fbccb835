"""A rank with `lockstep run --wandb` that is killed: what it has logged is there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.cli.test_python_client import python

from tests.conftest import Cluster, wait_until

STEPS = 50
SCRIPT = """
import os, time, wandb
from pathlib import Path
run = wandb.init(project="cats", config={{"lr": 0.5}})
begin = run.step
for step in range({steps}):
    wandb.log({{"loss": float(step), "note": f"row {{step}}"}})
time.sleep(1.1)  # longer than a write of the summary, and than the send of metrics, may wait
wandb.log({{"accuracy": 0.75}})
time.sleep(0.1)
Path({folder!r}, f"logged-{{begin}}").touch()
while begin == 0:
    time.sleep(1)
"""


def killed_run(cluster: Cluster, tmp_path: Path, *words: str) -> str:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(steps=STEPS, folder=str(tmp_path)))
    run = cluster.submit("--wandb", *words, "--", "python", str(script))
    [rank] = cluster.running_ranks(run)
    wait_until("all is logged", lambda: (tmp_path / "logged-0").exists())
    os.kill(rank["pid"], signal.SIGKILL)
    return run


def logged(cluster: Cluster, run: str, name: str) -> list[list[float]]:
    """Steps and values."""
    code = f"""
import json, lockstep
points = lockstep.run("{run}").metrics("{name}")
print(json.dumps([points["step"].tolist(), points["value"].tolist()]))
"""
    found: list[list[float]] = python(cluster, code)
    return found


def test_a_killed_rank_has_failed_and_what_it_logged_is_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = killed_run(cluster, tmp_path, "--rank-loss-retries", "0")
    view = cluster.ended(run)
    assert view["state"] == "failed"
    assert "signal 9" in cluster.ok("show", run) or "SIGKILL" in cluster.ok("show", run)
    steps = [float(step) for step in range(STEPS)]
    assert logged(cluster, run, "loss") == [steps, steps]
    assert logged(cluster, run, "accuracy") == [[STEPS], [0.75]]
    code = f'import json, lockstep; print(json.dumps(lockstep.run("{run}").params))'
    assert python(cluster, code) == {"lr": 0.5}
    [history] = cluster.home.glob("runs/**/wandb-files/history.jsonl")
    assert len(history.read_text().splitlines()) == STEPS


def test_the_next_attempt_of_a_killed_rank_goes_on_counting(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = killed_run(cluster, tmp_path, "--rank-loss-retries", "1")
    view = cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 2
    steps, _ = logged(cluster, run, "loss")
    assert steps == [float(step) for step in [*range(STEPS), *range(STEPS + 1, 2 * STEPS + 1)]]
