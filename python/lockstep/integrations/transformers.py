"""For the Trainer of the transformers library:

    trainer = transformers.Trainer(model, args, callbacks=[LockstepCallback()])

and, to shard the model by lockstep.shard, ``Trainer(..., policy="mics:2")`` of this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lockstep._report as report
from lockstep._run_files import keep_parameters
from lockstep.integrations._packages import package
from lockstep.integrations._values import log_numbers

if TYPE_CHECKING:
    from lockstep.transformers import ShardedTrainer, Trainer

_TrainerCallback: Any = package("transformers").TrainerCallback
_SHARDED = ("ShardedTrainer", "Trainer")

__all__ = ["LockstepCallback", "ShardedTrainer", "Trainer"]


class LockstepCallback(_TrainerCallback):
    """Sends what the Trainer logs to the run, with the names that it gives; its arguments and the
    model's configuration to `config.json`; its checkpoints to `lockstep show`. The first rank does.
    Each rank reports its progress, by which a rank that hangs is found."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **named: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        config: Any = getattr(model, "config", None)
        of_model = config.to_dict() if hasattr(config, "to_dict") else {}
        keep_parameters(of_model | args.to_dict())

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if state.max_steps > 0:
            report.progress(state.global_step, state.max_steps)

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        if state.is_world_process_zero and logs:
            log_numbers("LockstepCallback", logs, state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            report.checkpoint(state.global_step, folder)


def __getattr__(name: str) -> Any:
    if name in _SHARDED:  # they need the compiled part
        return getattr(importlib.import_module("lockstep.transformers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
