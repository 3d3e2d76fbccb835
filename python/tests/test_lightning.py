"""Lightning's Trainer over lockstep.shard gives the results of Lightning on one device."""

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import Crew, run_ranks
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lockstep

pytest.importorskip("lightning", reason="needs lightning")

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from lockstep.lightning import LockstepStrategy

ROWS = 64
BATCH = 8  # over all ranks


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 1)]
        self.layers = nn.Sequential(*layers)

    def loss(self, batch: list[Tensor]) -> Tensor:
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        return self.loss(batch)

    def validation_step(self, batch: list[Tensor], number: int) -> None:
        self.log("validation", self.loss(batch), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def data(rank: int = 0, ranks: int = 1) -> Any:
    """Every rank's rows of the batches that one device has. Lightning's own sampler shuffles."""
    x = torch.sin(torch.arange(5.0 * ROWS) * 1.7).view(ROWS, 5)
    rows = TensorDataset(x, 3 * x.sum(1, keepdim=True))
    share = DistributedSampler(rows, ranks, rank, shuffle=False)
    return DataLoader(rows, batch_size=BATCH // ranks, sampler=share)


def trainer(ranks: int = 1, strategy: Any = "auto", **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    quiet["use_distributed_sampler"] = False
    options = {"enable_checkpointing": False, **quiet, **options}
    return Trainer(accelerator="cpu", devices=ranks, strategy=strategy, **options)


def become(rank: int, ranks: int) -> None:
    """The environment of a rank that a launcher has started."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}


def train_beside_plain(rank: int, policy: str, tolerance: float, **options: Any) -> None:
    become(rank, 4)
    plain, alone = Module(), trainer(max_epochs=2, **options)
    alone.fit(plain, data(), data())
    ours, many = Module(), trainer(4, LockstepStrategy(policy), max_epochs=2, **options)
    many.fit(ours, data(rank, 4), data(rank, 4))
    values = lockstep.state_dict(ours)
    if rank == 0:
        close = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(values, plain.state_dict(), **close)
    expected = alone.callback_metrics["validation"].item()
    assert many.callback_metrics["validation"].item() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("policy", ["ddp", "mics:2"])
def test_it_learns_what_one_device_learns(crew: Crew, policy: str) -> None:
    """With clipping, accumulation, a schedule, and validation in between."""
    options: dict[str, Any] = {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2}
    crew.run(functools.partial(train_beside_plain, policy=policy, tolerance=1e-5, **options))


def test_it_learns_in_mixed_precision(crew: Crew) -> None:
    options: dict[str, Any] = {"precision": "bf16-mixed"}
    crew.run(functools.partial(train_beside_plain, policy="zero3", tolerance=3e-2, **options))


def fit_to(rank: int, ranks: int, policy: str, epochs: int, folder: str, start: str | None) -> Any:
    become(rank, ranks)
    module = Module()
    saving = ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=-1)
    options = {"callbacks": [saving], "enable_checkpointing": True, "max_epochs": epochs}
    strategy = LockstepStrategy(policy) if policy != "plain" else "auto"
    run = trainer(ranks, strategy, **options)
    run.fit(module, data(rank, ranks), data(rank, ranks), ckpt_path=start)
    values = lockstep.state_dict(module) if policy != "plain" else module.state_dict()
    return {name: value.tolist() for name, value in values.items()}, run.global_step


def test_it_resumes_at_any_number_of_ranks_and_from_one_device(
    backend: str, tmp_path: Path
) -> None:
    folder, start = str(tmp_path), None
    (alone,) = run_ranks(1, fit_to, 1, "plain", 4, f"{folder}/alone", None, backend=backend)
    chain = [(1, "plain"), (4, "mics:2"), (2, "zero3"), (2, "ddp")]
    for epoch, (ranks, policy) in enumerate(chain):
        arguments = (ranks, policy, epoch + 1, folder, start)
        values, steps = run_ranks(ranks, fit_to, *arguments, backend=backend)[0]
        start = f"{folder}/epoch={epoch}.ckpt"
    assert steps == alone[1] == 4 * ROWS // BATCH
    for name, value in alone[0].items():
        torch.testing.assert_close(torch.tensor(values[name]), torch.tensor(value))
