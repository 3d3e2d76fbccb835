"""The Python examples as programs: their losses with each policy, and whose checkpoints load."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples.test_gpt import free_port

from tests.conftest import BUILD, PATIENCE, ROOT

TEXT = "Once upon a time there was a gang of ranks. "
SIZES = "--batch 8 --layers 3 --width 32 --context 16"
GPT = ["examples/gpt_python/train.py", *SIZES.split(), "--heads", "2"]
LIGHTNING = ["examples/lightning/train.py", *SIZES.split()]
TRAINER = ["examples/hugging_face/trainer.py", *SIZES.split()]
HUGGING_FACE = ["examples/hugging_face/train.py", *SIZES.split()]


def run_ranks(ranks: int, command: list[str]) -> str:
    """The output of rank 0."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    kept |= {"PYTHONPATH": str(BUILD / "python"), "HF_HUB_OFFLINE": "1"}
    size = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            command,
            env={**kept, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), **size},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * ranks, said
    return said[0]


def run_alone(command: list[str]) -> str:
    """The output of a program that starts its ranks itself."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    kept["PYTHONPATH"] = str(BUILD / "python")
    ended = subprocess.run(
        command, env=kept, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 400)
    return path


def losses(said: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", said)]


def test_the_gpt_learns_and_cpp_goes_on_from_its_checkpoints(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    options = ["--data", str(data), "--checkpoints", str(folder), "--warmup", "2"]
    python = [sys.executable, *GPT, *options]
    said = run_ranks(2, [*python, "--policy", "mics:2", "--steps", "12"])
    assert losses(said)[0] == pytest.approx(5.55, abs=0.2)
    learned = losses(said)[-1]
    assert learned < losses(said)[0] - 0.5
    # C++ loads it and continues the training, and Python loads that.
    cpp = [str(BUILD / "bin" / "gpt"), "train", *SIZES.split(), "--heads", "2", *options]
    said = run_ranks(2, [*cpp, "--policy", "ddp", "--steps", "14"])
    assert "resuming from step 12" in said
    assert losses(said)[0] < learned + 0.5
    said = run_ranks(4, [*python, "--policy", "zero2", "--steps", "16"])
    assert "resuming from step 14" in said
    assert losses(said)[0] < learned + 0.5


@pytest.mark.skipif(not importlib.util.find_spec("lightning"), reason="needs lightning")
def test_a_lightning_module_learns(data: Path) -> None:
    """Lightning starts the ranks."""
    words = ["--policy", "zero3", "--devices", "2", "--epochs", "2"]
    found = losses(run_alone([sys.executable, *LIGHTNING, "--data", str(data), *words]))
    assert len(found) == 2 and found[1] < found[0] - 0.5


def test_a_gpt2_of_transformers_learns_the_same_by_every_policy(data: Path) -> None:
    command = [sys.executable, *HUGGING_FACE, "--data", str(data), "--steps", "4"]
    alone = losses(run_ranks(1, [*command, "--policy", "ddp"]))
    assert alone[-1] < alone[0]
    for ranks, words in ((4, "mics:2"), (2, "zero3 --checkpointing")):
        found = losses(run_ranks(ranks, [*command, "--policy", *words.split()]))
        assert found == pytest.approx(alone, abs=2e-4), words


@pytest.mark.skipif(not importlib.util.find_spec("accelerate"), reason="needs accelerate")
def test_a_trainer_of_transformers_learns(data: Path) -> None:
    command = [sys.executable, *TRAINER, "--data", str(data), "--policy", "zero3", "--steps", "30"]
    found = [float(loss) for loss in re.findall(r"'loss': '(\d+\.\d+)'", run_ranks(2, command))]
    assert len(found) == 3 and found[2] < found[0] - 0.3
