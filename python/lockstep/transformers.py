"""The Trainer of the transformers library over lockstep.shard.

    from lockstep.transformers import Trainer            # instead of transformers

    trainer = Trainer(model, args, train_dataset=data, policy="mics:2")

Other trainers that derive from it train by ShardedTrainer:

    class MyTrainer(lockstep.transformers.ShardedTrainer, trl.SFTTrainer): ...
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import transformers

from lockstep import _materialize, _shard, _state, _step
from lockstep._interop import named_state

# Files of a Trainer's checkpoint; the folder is ours.
_OPTIMIZER, _SCHEDULER, _FOLDER = "optimizer.pt", "scheduler.pt", "lockstep"


class ShardedTrainer:
    """The first base class of a Trainer that is to train by lockstep.shard.

    Args:
        policy, blocks: as for lockstep.shard.

    Checkpoints have the model as save_pretrained writes it. The optimizer's state is a folder of
    torch.distributed.checkpoint, to which each rank writes its part: a training resumes with any
    number of ranks and any policy, also from a checkpoint of a Trainer on one device.
    """

    model: Any
    args: Any
    state: Any
    accelerator: Any
    optimizer: Any
    lr_scheduler: Any

    def __init__(
        self,
        *arguments: Any,
        policy: str = "ddp",
        blocks: _shard.Blocks | None = None,
        **named: Any,
    ) -> None:
        self._policy, self._blocks = policy, blocks
        super().__init__(*arguments, **named)
        if self.args.save_on_each_node:
            raise ValueError("save_on_each_node: a sharded model is saved by rank 0 only")

    def _shard_model(self) -> None:
        model = self.model
        if hasattr(model, _shard.MARK):
            return
        on_meta = any(each.is_meta for each in model.parameters())
        device = self.args.device if on_meta else None
        _shard.shard(
            model, self._policy, blocks=self._blocks, group=_training_group(), device=device
        )
        # accelerate calls the first around all micro-steps of a step but the last.
        model.no_sync = functools.partial(_shard.no_sync, model)
        self.accelerator.clip_grad_norm_ = _clip_grad_norm
        # It prepares for mixed precision, and is told not to wrap the model for its own training.
        self.accelerator.prepare_model(model, device_placement=False, evaluation_mode=True)
        model._is_accelerate_prepared = True

    def create_optimizer(self, *arguments: Any, **named: Any) -> Any:
        self._shard_model()
        return super().create_optimizer(*arguments, **named)  # type: ignore[misc]

    def _wrap_model(self, model: Any, *arguments: Any, **named: Any) -> Any:
        self._shard_model()
        return model

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if state_dict is None and hasattr(self.model, _shard.MARK):
            state_dict = _state.state_dict(self.model)
        super()._save(output_dir, state_dict=state_dict)  # type: ignore[misc]

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        dcp.save(self._stateful(), checkpoint_id=Path(output_dir) / _FOLDER)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / _SCHEDULER)

    def _stateful(self) -> dict[str, Any]:
        """With the model, because the optimizer has 32 bits of parameters that it has as 16."""
        return {"app": named_state.Stateful(self.model, _unwrapped(self.optimizer))}

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._shard_model()
        core = _shard.sharded_of(self.model).core
        _materialize.read(self.model, core, resume_from_checkpoint, None, None)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        if (folder / _FOLDER).is_dir():
            dcp.load(self._stateful(), checkpoint_id=folder / _FOLDER)
        elif (folder / _OPTIMIZER).is_file():
            self._load_optimizer_of_one_device(folder / _OPTIMIZER)
        if (folder / _SCHEDULER).is_file():
            self.lr_scheduler.load_state_dict(torch.load(folder / _SCHEDULER, weights_only=True))

    def _load_optimizer_of_one_device(self, file: Path) -> None:
        optimizer = _unwrapped(self.optimizer)
        state = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
        names = named_state.names_of(self.model, optimizer)
        named_state.load_optimizer_state_dict(
            self.model, optimizer, named_state.by_name(state, names)
        )


class Trainer(ShardedTrainer, transformers.Trainer):
    """transformers.Trainer with the argument policy: how lockstep.shard divides the model."""


def _training_group() -> dist.ProcessGroup | None:
    """The ranks. TrainingArguments has connected those on a CPU by Gloo."""
    if not dist.is_initialized() or dist.get_backend() != "gloo":
        return None
    return dist.new_group(backend="lockstep")


def _clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2) -> torch.Tensor:
    if norm_type != 2:
        raise ValueError(f"norm_type {norm_type}: a sharded model is clipped by the norm 2")
    return torch.tensor(_step.clip_grad_norm_(parameters, max_norm))


def _unwrapped(optimizer: Any) -> torch.optim.Optimizer:
    """Without accelerate's wrapper."""
    found: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    return found
