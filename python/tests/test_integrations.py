"""lockstep.integrations: found by one name, loaded when named, and what each reports."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import lockstep
from lockstep import _report, _run_files, integrations

PYTHON = Path(lockstep.__file__).parents[1]


class Reports:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.progress: list[tuple[int, int]] = []
        self.checkpoints: list[tuple[int, str]] = []

    def names(self) -> set[str]:
        return {name for _, row in self.rows for name in row}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Reports]:
    """The reports of a run whose checkpoint folder is tmp_path."""
    made = Reports()
    monkeypatch.setenv("LOCKSTEP_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("LOCKSTEP_RUN", "demo/7")
    monkeypatch.setattr(_run_files, "_warned", set())
    monkeypatch.setattr(
        _report,
        "log",
        lambda values, step: made.rows.append((step, {k: float(v) for k, v in values.items()})),
    )
    monkeypatch.setattr(_report, "progress", lambda *steps: made.progress.append(steps))
    monkeypatch.setattr(
        _report, "checkpoint", lambda step, path: made.checkpoints.append((step, str(path)))
    )
    yield made


def config(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "wandb-files/config.json").read_text())
    return read


def test_an_integration_is_loaded_only_when_it_is_named() -> None:
    program = """
import sys
import lockstep.integrations
assert dir(lockstep.integrations) == ["accelerate", "lightning", "transformers"]
assert not {"torch", "lightning", "transformers", "accelerate"} & sys.modules.keys()
lockstep.integrations.lightning.LockstepLogger
assert "lockstep.integrations.transformers" not in sys.modules
assert "lockstep._lockstep" not in sys.modules
"""
    pytest.importorskip("lightning")
    subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(PYTHON)}, check=True, timeout=120
    )


def test_the_strategy_and_the_trainers_are_found_there_too() -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("transformers")
    from lockstep.lightning import LockstepStrategy
    from lockstep.transformers import ShardedTrainer, Trainer

    assert integrations.lightning.LockstepStrategy is LockstepStrategy
    assert integrations.transformers.Trainer is Trainer
    assert integrations.transformers.ShardedTrainer is ShardedTrainer
    for module in (integrations, integrations.lightning, integrations.transformers):
        with pytest.raises(AttributeError, match="keras"):
            _ = module.keras


def test_a_library_that_is_missing_is_named_with_its_command() -> None:
    program = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "accelerate" else find(name)
import lockstep.integrations.accelerate
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: lockstep.integrations.accelerate needs it: pip install accelerate"
    )


def test_a_training_of_lightning_reports_all(reports: Reports, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.layer(batch).pow(2).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=4,
        log_every_n_steps=2,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=integrations.lightning.LockstepLogger(),
        callbacks=[
            integrations.lightning.LockstepCallback(),
            lightning.pytorch.callbacks.ModelCheckpoint(every_n_train_steps=4),
        ],
    )
    trainer.fit(Model(width=2), torch.utils.data.DataLoader(torch.ones(8, 2)))
    assert [(step, sorted(row)) for step, row in reports.rows] == [
        (1, ["epoch", "loss"]),
        (3, ["epoch", "loss"]),
    ]
    assert reports.progress == [(step, 4) for step in range(1, 5)]
    [(step, path)] = reports.checkpoints
    assert step == 4
    assert Path(path).exists()
    assert Path(path).is_relative_to(tmp_path / "demo" / "7")
    assert config(tmp_path) == {"width": 2}


def test_parameters_of_lightning_may_be_a_namespace(reports: Reports, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    logger = integrations.lightning.LockstepLogger()
    logger.log_hyperparams(argparse.Namespace(lr=0.5, path=Path("/data")))
    logger.log_hyperparams({"seed": 1})
    assert config(tmp_path) == {"lr": 0.5, "path": "/data", "seed": 1}


def test_a_training_of_transformers_reports_all(reports: Reports, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import transformers

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            return {"loss": (self.layer(x) - labels).pow(2).mean()}

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        max_steps=4,
        logging_steps=2,
        save_steps=4,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
    callback = integrations.transformers.LockstepCallback()
    trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    assert [step for step, row in reports.rows if "loss" in row] == [2, 4]
    assert "train_runtime" in reports.names()
    assert reports.progress == [(step, 4) for step in range(1, 5)]
    assert reports.checkpoints == [(4, str(tmp_path / "out/checkpoint-4"))]
    assert config(tmp_path)["max_steps"] == 4


def test_the_tracker_of_accelerate_reports_numbers_and_names_the_rest(
    reports: Reports, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("accelerate")
    import accelerate

    tracker = integrations.accelerate.LockstepTracker()
    accelerator = accelerate.Accelerator(log_with=tracker, cpu=True)
    accelerator.init_trackers("project", config={"lr": 0.5})
    for step in range(2):
        accelerator.log({"loss": torch.tensor(0.5), "text": "x", "z": 1j}, step=step)
    accelerator.end_training()
    assert reports.rows == [(0, {"loss": 0.5}), (1, {"loss": 0.5})]
    assert config(tmp_path) == {"lr": 0.5}
    said = capsys.readouterr().err
    assert said.count("text: str is no number and is left out") == 1
    assert said.count("z: complex is no number and is left out") == 1
    assert accelerator.get_tracker("lockstep") is tracker
