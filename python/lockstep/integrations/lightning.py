"""For Lightning's Trainer, of the package lightning or pytorch_lightning:

    trainer = lightning.Trainer(
        logger=LockstepLogger(),
        callbacks=[LockstepCallback()],
        strategy=LockstepStrategy("mics:2"),     # only to shard the model
    )

Import the package of the Trainer first, if both are installed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lockstep._report as report
from lockstep._run_files import keep_parameters
from lockstep.integrations._packages import lightning_package
from lockstep.integrations._values import log_numbers

if TYPE_CHECKING:
    from lockstep.lightning import LockstepStrategy

_PACKAGE = lightning_package()
_Logger: Any = importlib.import_module(f"{_PACKAGE}.loggers.logger").Logger
_Callback: Any = importlib.import_module(f"{_PACKAGE}.callbacks").Callback
_rank_zero_only: Any = importlib.import_module(f"{_PACKAGE}.utilities.rank_zero").rank_zero_only

__all__ = ["LockstepCallback", "LockstepLogger", "LockstepStrategy"]


class LockstepLogger(_Logger):
    """Sends metrics of ``self.log`` to the run, hyper-parameters to `config.json`, and the
    checkpoints of ModelCheckpoint to `lockstep show`. Only rank 0 does."""

    @property
    def name(self) -> str:
        """The project; Lightning's folders have it in their path."""
        return os.environ.get("LOCKSTEP_RUN", "").partition("/")[0] or "lockstep"

    @property
    def version(self) -> str:
        """The run's number."""
        return os.environ.get("LOCKSTEP_RUN", "").partition("/")[2] or "local"

    @property
    def save_dir(self) -> str | None:
        """The run's checkpoint folder, where ModelCheckpoint saves unless it has a folder."""
        return os.environ.get("LOCKSTEP_CHECKPOINT_DIR")

    @_rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        log_numbers("LockstepLogger", metrics, step)

    @_rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Any, *arguments: Any, **named: Any) -> None:
        """
        Args:
            params: a mapping or an argparse.Namespace.
        """
        keep_parameters(params if isinstance(params, Mapping) else vars(params))

    @_rank_zero_only  # type: ignore[untyped-decorator]
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        path = getattr(checkpoint_callback, "_last_checkpoint_saved", "")
        if path:
            report.checkpoint(checkpoint_callback._last_global_step_saved, path)


class LockstepCallback(_Callback):
    """Reports the progress of each rank, by which a rank that hangs is found."""

    def on_train_batch_end(self, trainer: Any, *arguments: Any, **named: Any) -> None:
        steps = trainer.estimated_stepping_batches
        if 0 < steps < float("inf"):
            report.progress(trainer.global_step, int(steps))


def __getattr__(name: str) -> Any:
    if name == "LockstepStrategy":  # it needs the compiled part
        return importlib.import_module("lockstep.lightning").LockstepStrategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
