"""A rank of a training is killed under `lockstep run --on-failure`, and the others go on."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BUILD, ROOT, Cluster, wait_until

GPT = str(BUILD / "bin" / "gpt")
STEPS = 400  # so many that the run still goes on when its rank is killed
SMALL = ["--steps", str(STEPS), "--width", "32", "--layers", "2", "--context", "32"]
SMALL += ["--checkpoint-every", "1000", "--policy", "mics:2"]
# At the default rate a change of the last bit grows to 0.06 of the loss within 250 steps.
SMALL += ["--learning-rate", "0.0005"]
KILLED = 3


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(
        "".join(f"the {n % 7} little ducks went out, day {n % 30};\n" for n in range(900))
    )
    return path


def train(cluster: Cluster, text: Path, on_failure: str) -> str:
    words = ["-n", "2", "-g", "2", "--on-failure", on_failure]
    program = [GPT, "train", "--evaluate-every", "1000"]
    return cluster.submit(*words, "--", *program, "--data", str(text), *SMALL)


def curve(cluster: Cluster, run: str, untold: int = 0) -> dict[int, float]:
    """Losses by step. The step in which a rank died may be missing."""
    listed = json.loads(cluster.ok("metrics", run, "--name", "loss", "--json"))["series"]
    assert [series["rank"] for series in listed] == [0]
    points: list[dict[str, Any]] = listed[0]["points"]
    losses = {point["step"]: point["value"] for point in points}
    assert set(range(1, STEPS + 1)) - losses.keys() <= {untold}
    return losses


def kill_a_rank(cluster: Cluster, run: str) -> None:
    ranks = cluster.running_ranks(run)
    wait_until("there are steps", lambda: (cluster.show(run)["progress"] or {}).get("step"))
    os.kill(next(rank["pid"] for rank in ranks if rank["rank"] == KILLED), signal.SIGKILL)


def expect_recovery(cluster: Cluster, run: str, death: str, story: str) -> int:
    """The step after which the other ranks went on."""
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    assert len(view["attempts"]) == 1, "it was started anew"
    events = [event["what"] for event in view["events"]]
    assert death in events  # the agent may notice it after the ranks go on
    [recovered] = [event for event in events if event != death]
    found = re.fullmatch(
        story + r" after step (\d+) from memory, \S+ after they noticed", recovered
    )
    assert found, recovered
    assert recovered in cluster.ok("show", run)
    assert any(recovered in line for line in cluster.logs(run))
    return int(found[1])


def expect_the_same(found: dict[int, float], right: dict[int, float], tolerance: float) -> None:
    """A step that was lost or taken twice would shift the samples, and so the losses."""
    for step, loss in found.items():
        assert loss == pytest.approx(right[step], rel=0, abs=tolerance), f"step {step}"


def test_the_replica_that_is_left_goes_on_or_all_wait_for_the_rank(
    cluster: Cluster, text: Path
) -> None:
    undisturbed = train(cluster, text, "restart")
    assert cluster.ended(undisturbed)["state"] == "succeeded"
    right = curve(cluster, undisturbed)
    assert right[STEPS] < right[1] - 1, "it did not learn"

    run = train(cluster, text, "shrink")
    kill_a_rank(cluster, run)
    death = "rank 3 was killed by signal 9"
    story = "rank 3 was lost; rank 2 leaves, no replica needs it; ranks 0 and 1 go on"
    step = expect_recovery(cluster, run, death, story)
    # Two ranks sum in another order than four.
    expect_the_same(curve(cluster, run, untold=step), right, tolerance=1e-4)

    run = train(cluster, text, "wait")
    kill_a_rank(cluster, run)
    death += " and is started again (restart 1 of at most 3 on its host)"
    story = "rank 3 died and was started again; ranks 0, 1, 2 and 3 go on"
    step = expect_recovery(cluster, run, death, story)
    expect_the_same(curve(cluster, run, untold=step), right, tolerance=0)
    ranks = [rank for node in cluster.show(run)["attempts"][0]["nodes"] for rank in node["ranks"]]
    assert [(rank["state"], rank["code"]) for rank in ranks] == [("exited", 0)] * 4


def test_a_python_program_goes_on_too(cluster: Cluster, text: Path) -> None:
    program = [sys.executable, str(ROOT / "examples/gpt_python/train.py"), "--data", str(text)]
    words = ["-n", "2", "-g", "2", "--on-failure", "shrink"]
    words += ["--env", f"PYTHONPATH={BUILD / 'python'}"]
    run = cluster.submit(*words, "--", *program, *SMALL)
    kill_a_rank(cluster, run)
    story = "rank 3 was lost; rank 2 leaves, no replica needs it; ranks 0 and 1 go on"
    step = expect_recovery(cluster, run, "rank 3 was killed by signal 9", story)
    losses = curve(cluster, run, untold=step)
    assert losses[STEPS] < losses[1] - 1, "it did not learn"
