"""A strategy for Lightning's Trainer, of the package lightning or pytorch_lightning.

    from lockstep.lightning import LockstepStrategy

    trainer = lightning.Trainer(strategy=LockstepStrategy("mics:2"), devices=2, num_nodes=2)

Import the package of the Trainer first, if both are installed.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.optim import Optimizer

from lockstep import _shard, _state, _step
from lockstep._interop import named_state
from lockstep.integrations._packages import lightning_package

_PACKAGE = lightning_package()
_DDPStrategy: Any = importlib.import_module(f"{_PACKAGE}.strategies").DDPStrategy
_METADATA = "meta.pt"  # of Lightning's checkpoints that are folders


class LockstepStrategy(_DDPStrategy):
    """Trains a LightningModule by lockstep.shard.

    It works with gradient_clip_val, accumulate_grad_batches, the precisions of the DDP strategy,
    ModelCheckpoint and ckpt_path. Checkpoints are folders of torch.distributed.checkpoint, as those
    of Lightning's FSDPStrategy: each rank writes its part, and any number of ranks with
    any policy resumes from them. It also resumes from the file of a training on one device.
    """

    strategy_name = "lockstep"
    cluster_environment: Any
    model: Any

    def __init__(
        self,
        policy: str = "ddp",
        *,
        blocks: _shard.Blocks | None = None,
        init: Callable[[nn.Module], Any] | None = None,
        process_group_backend: str = "lockstep",
        **named: Any,
    ) -> None:
        """
        Args:
            policy, blocks, init: as for lockstep.shard.
            named: other arguments of Lightning's DDPStrategy.
        """
        super().__init__(process_group_backend=process_group_backend, **named)
        self._policy, self._blocks, self._init = policy, blocks, init
        # lockstep run sets the variables of torchrun. Lightning looks for one more.
        if self.cluster_environment is None and {"RANK", "LOCAL_RANK"} <= os.environ.keys():
            environments = importlib.import_module(f"{_PACKAGE}.plugins.environments")
            self.cluster_environment = environments.TorchElasticEnvironment()

    def setup(self, trainer: Any) -> None:
        fitting = trainer.state.fn == "fit"
        self.accelerator.setup(trainer)
        if not hasattr(self.model, _shard.MARK):
            self._shard_model(fitting)
        if fitting:
            self.setup_optimizers(trainer)
        self.precision_plugin.clip_grad_by_norm = self._clip_by_norm
        self.setup_precision_plugin()

    def _shard_model(self, fitting: bool) -> None:
        if fitting and self._layer_sync:
            self.model = self._layer_sync.apply(self.model)
        self.model = self.precision_plugin.convert_module(self.model)
        on_meta = any(each.is_meta for each in self.model.parameters())
        if not on_meta:
            self.model_to_device()
        _shard.shard(
            self.model,
            self._policy,
            blocks=self._blocks,
            device=self.root_device if on_meta else None,
            init=self._init,
        )

    def tensor_init_context(self, empty_init: bool | None = None) -> Any:
        """Trainer.init_module(empty_init=True) makes the model on the meta device."""
        return torch.device("meta") if empty_init else super().tensor_init_context(empty_init)

    def _clip_by_norm(self, optimizer: Optimizer, clip_val: float) -> None:
        _step.clip_grad_norm_(self.lightning_module.parameters(), clip_val)

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Lightning counts samples in integers, whose mean the backend refuses."""
        is_count = isinstance(tensor, Tensor) and not tensor.is_floating_point()
        if not is_count or reduce_op not in ("mean", "avg"):
            return super().reduce(tensor, group, reduce_op)
        total = super().reduce(tensor, group, "sum")
        return total.copy_(total / dist.get_world_size(group))

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        with _shard.no_sync(self.model):
            yield

    def optimizer_step(
        self,
        optimizer: Optimizer,
        closure: Callable[[], Any],
        model: Any = None,
        **named: Any,
    ) -> Any:
        """Lightning lets the optimizer call backward. Here it precedes the step, which is agreed on
        by all ranks."""
        plugin = self.precision_plugin
        model = model or self.lightning_module
        if getattr(plugin, "scaler", None) is not None:
            return super().optimizer_step(optimizer, closure, model, **named)
        result = plugin._wrap_closure(model, optimizer, closure)
        optimizer.step(**named)
        return result

    def lightning_module_state_dict(self) -> dict[str, Any]:
        return named_state.model_slices(self.model)

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        return named_state.optimizer_slices(self.model, _unwrapped(optimizer))

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return True

    @property
    def lightning_restore_optimizer(self) -> bool:
        return False  # load_checkpoint does it

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """load_checkpoint has done it."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None
    ) -> None:
        """A save that is interrupted leaves the checkpoint before as it is."""
        path = Path(self.broadcast(filepath))
        unfinished = path.with_name(f".{path.name}.tmp")
        if self.is_global_zero:
            shutil.rmtree(unfinished, ignore_errors=True)
        self.barrier()
        state = {"model": checkpoint.pop("state_dict")}
        for number, optimizer in enumerate(checkpoint.pop("optimizer_states", [])):
            state[f"optimizer_{number}"] = optimizer
        dcp.save(state, checkpoint_id=unfinished)
        if self.is_global_zero:
            torch.save(checkpoint, unfinished / _METADATA)
            self.remove_checkpoint(path)
            unfinished.rename(path)
        self.barrier()

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> Any:
        path = Path(self.broadcast(checkpoint_path))
        fitting = self.lightning_module.trainer.state.fn == "fit"
        optimizers = [_unwrapped(each) for each in self.optimizers] if fitting else []
        if path.is_dir():
            return self._load_folder(path, optimizers, weights_only)
        return self._load_file(path, optimizers, weights_only)

    def _load_folder(
        self, path: Path, optimizers: list[Optimizer], weights_only: bool | None
    ) -> Any:
        state: dict[str, Any] = {"model": named_state.model_slices(self.model)}
        for number, optimizer in enumerate(optimizers):
            slices = named_state.optimizer_slices(self.model, optimizer)
            state[f"optimizer_{number}"] = slices
        dcp.load(state, checkpoint_id=path)
        _state.load_state_dict(self.model, state["model"])
        for number, optimizer in enumerate(optimizers):
            self._load_optimizer(optimizer, state[f"optimizer_{number}"])
        return torch.load(path / _METADATA, weights_only=weights_only)

    def _load_file(self, path: Path, optimizers: list[Optimizer], weights_only: bool | None) -> Any:
        """The file is of one device, or consolidated. Each rank reads only its part of it."""
        checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=weights_only)
        _state.load_state_dict(self.model, checkpoint["state_dict"])
        for optimizer, state in zip(optimizers, checkpoint["optimizer_states"], strict=False):
            names = named_state.names_of(self.model, optimizer)
            self._load_optimizer(optimizer, named_state.by_name(state, names))
        return checkpoint

    def _load_optimizer(self, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
        named_state.load_optimizer_state_dict(self.model, optimizer, state)

    def teardown(self) -> None:
        """Unlike Lightning's, leaves the model on its device, where the engine has its memory."""
        self.cluster_environment.teardown()
        self.precision_plugin.teardown()
        self.accelerator.teardown()
        self.checkpoint_io.teardown()


def _unwrapped(optimizer: Any) -> Optimizer:
    """Without Lightning's wrapper."""
    found: Optimizer = getattr(optimizer, "_optimizer", optimizer)
    return found
