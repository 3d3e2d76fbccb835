"""`./dev demo`, shortened: its output and its files, and that no process is left."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cluster

sys.path.insert(0, str(ROOT / "tools"))

import demo

STEPS = 150  # the rank dies after 60, with a checkpoint of step 50 behind it


def test_the_demo_shows_a_model_that_learns_although_a_rank_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "HOME", tmp_path / "home")
    monkeypatch.setenv("LOCKSTEP_HOME", "")  # the demo sets its own; this puts it back
    figures = tmp_path / "figures.json"
    demo.run_demo(argparse.Namespace(kill_rank=True, keep=False, json=str(figures), steps=STEPS))

    shown = capfd.readouterr().out
    for part in ("Loss by step", "What the model writes", "Checkpoints", "What to type next"):
        assert part in shown
    assert "sent SIGKILL to rank 3 of demo/1" in shown
    result = json.loads(figures.read_text())
    assert result["attempts"] == 2 and result["steps"] == STEPS
    assert result["loss_last"] < result["loss_first"] - 2
    assert result["held_out_loss"] < 3.5 and result["tokens_per_second"] > 0
    assert not (tmp_path / "home" / "daemon.json").exists()
    assert Cluster(tmp_path / "home").processes() == []
