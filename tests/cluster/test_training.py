"""Training under `lockstep run`: on two hosts of two ranks, with and without a rank that dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BUILD, ROOT, Cluster, wait_until

GPT = str(BUILD / "bin" / "gpt")
STEPS = 300  # enough that the run still goes on when its rank is killed
SMALL = ["--steps", str(STEPS), "--width", "32", "--layers", "1", "--context", "32"]
SMALL += ["--checkpoint-every", "20", "--evaluate-every", "100"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A corpus that is learnt quickly."""
    folder = tmp_path / "text"
    folder.mkdir()
    words = "".join(
        f"the {n % 7} little ducks went out to swim, day {n % 30};\n" for n in range(3000)
    )
    (folder / "train.txt").write_text(words)
    (folder / "heldout.txt").write_text(words[:20000])
    return folder


def train(cluster: Cluster, text: Path) -> str:
    return cluster.submit("-n", "2", "-g", "2", "--", GPT, "train", "--data", str(text), *SMALL)


def losses(cluster: Cluster, run: str) -> list[float]:
    listed = json.loads(cluster.ok("metrics", run, "--name", "loss", "--json"))["series"]
    points: list[dict[str, Any]] = listed[0]["points"]
    assert [point["step"] for point in points] == list(range(1, STEPS + 1))
    return [point["value"] for point in points]


def test_a_killed_rank_costs_steps_but_not_a_bit_of_the_curve(cluster: Cluster, text: Path) -> None:
    undisturbed = train(cluster, text)
    assert cluster.ended(undisturbed)["state"] == "succeeded"

    run = train(cluster, text)
    wait_until("a checkpoint is there", lambda: cluster.show(run)["checkpoints"])
    cluster.ok("kill", run, "--rank", "3")
    view = cluster.ended(run)

    assert view["state"] == "succeeded"
    assert [attempt["cause"] for attempt in view["attempts"]] == ["rank_lost", "ok"]
    assert any("resuming from step" in line for line in cluster.logs(run))
    curve = losses(cluster, run)
    assert curve == losses(cluster, undisturbed)
    assert curve[-1] < curve[0] / 2, "it did not learn"
    assert view["checkpoints"][-1]["step"] == STEPS
    assert Path(view["checkpoints"][-1]["path"]).is_dir()


def test_an_unmodified_ddp_script_learns_the_same_over_lockstep_and_gloo(cluster: Cluster) -> None:
    script = str(ROOT / "examples" / "ddp" / "train.py")
    curves = []
    for backend in ("gloo", "lockstep"):
        command = ["python", script, "--backend", backend, "--dtype", "float64"]
        run = cluster.submit("-n", "2", "-g", "2", "--", *command)
        assert cluster.ended(run)["state"] == "succeeded"
        # Gloo at times kills a rank that leaves while others still read from it: the last attempt.
        curves.append([line for line in cluster.logs(run, "--rank", "0") if "loss" in line][-20:])
    assert [line.split()[-3] for line in curves[0]] == [str(step) for step in range(20)]
    told = cluster.ok("flight", run)  # the one over lockstep
    assert "4 ranks: ranks 0, 1, 2 and 3 have ended" in told and "nothing is under way" in told
    assert "all_reduce(" in told
    for ours, theirs in zip(curves[1], curves[0], strict=True):
        assert float(ours.split()[-1]) == pytest.approx(float(theirs.split()[-1]), abs=1e-10)
