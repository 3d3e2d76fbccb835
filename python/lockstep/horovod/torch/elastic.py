"""hvd.elastic: training that goes on when ranks are lost, or join.

The script keeps what must survive in a State and calls commit() now and then. When a collective
fails, the ranks that are left go back to the last commit, connect again and go on as a smaller
world. A rank that wants to join is admitted at a commit. Under ``lockstep run`` the first rank also
writes each commit into the run's checkpoint folder, and an attempt that starts after the loss of a
rank begins with it.
"""

from __future__ import annotations

import copy
import functools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from lockstep.horovod.torch import world
from lockstep.horovod.torch.errors import HorovodInternalError, HostsUpdatedInterrupt
from lockstep.horovod.torch.parameters import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)


class State:
    """Values that survive a loss of ranks. Derived classes say how it is saved and shared."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], Any]] = []
        self._updates: list[bool] = []

    def register_reset_callbacks(self, callbacks: list[Callable[[], Any]]) -> None:
        """They are called after the world has changed, for example to set the learning rate."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self._updates.clear()
        self.reset()
        for callback in self._callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: Any) -> None:
        """The next commit() or check_host_updates() of all ranks raises HostsUpdatedInterrupt."""
        self._updates.append(True)

    def commit(self) -> None:
        """Keeps the present values, and looks for changes of the world."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        changes = bool(self._updates) or (world.rank() == 0 and world.has_joiners())
        if broadcast_object(changes, 0, "elastic.updates"):
            raise HostsUpdatedInterrupt

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Called before sync() in the new world."""


class ObjectState(State):
    """Python objects as attributes: ``ObjectState(epoch=0)``. As in Horovod, they may be preceded
    by the functions that broadcast an object and return the rank, which are not used."""

    def __init__(self, bcast_object: Any = None, get_rank: Any = None, **objects: Any) -> None:
        super().__init__()
        self._names = list(objects)
        for name, value in objects.items():
            setattr(self, name, value)
        self._saved = self._values()

    def save(self) -> None:
        self._saved = self._values()

    def restore(self) -> None:
        self._restore_objects()

    def _restore_objects(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        self._saved = broadcast_object(self._values(), 0, "elastic.objects")
        self._restore_objects()

    def _values(self) -> dict[str, Any]:
        return {name: copy.deepcopy(getattr(self, name)) for name in self._names}


class TorchState(ObjectState):
    """The same, with models, optimizers and samplers: ``TorchState(model, optimizer, epoch=0)``."""

    def __init__(self, model: Any = None, optimizer: Any = None, **objects: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **objects}
        self._parts = {
            name: value
            for name, value in given.items()
            if isinstance(value, torch.nn.Module | torch.optim.Optimizer | ElasticSampler)
        }
        for name, value in self._parts.items():
            setattr(self, name, value)
        super().__init__(
            **{name: value for name, value in given.items() if name not in self._parts}
        )
        self._saved_parts = self._part_states()

    def save(self) -> None:
        super().save()
        self._saved_parts = self._part_states()
        if (path := _commit_file()) and world.rank() == 0:
            kept = path.with_suffix(".new")
            torch.save({"objects": self._saved, "parts": self._saved_parts}, kept)
            kept.replace(path)

    def load_commit(self) -> None:
        """Takes the last commit of an earlier attempt of this run, if there is one."""
        path = _commit_file()
        if path is None or world.rank() != 0 or not path.exists():
            return
        kept = torch.load(path, weights_only=False)
        self._saved.update(kept["objects"])
        self._saved_parts.update(kept["parts"])
        self.restore()

    def restore(self) -> None:
        super().restore()
        for name, part in self._parts.items():
            part.load_state_dict(copy.deepcopy(self._saved_parts[name]))

    def sync(self) -> None:
        for name, part in self._parts.items():
            if isinstance(part, torch.nn.Module):
                broadcast_parameters(part.state_dict(), 0)
            elif isinstance(part, torch.optim.Optimizer):
                broadcast_optimizer_state(part, 0)
            else:
                part.load_state_dict(broadcast_object(part.state_dict(), 0, f"elastic.{name}"))
        super().sync()
        self._saved_parts = self._part_states()

    def _part_states(self) -> dict[str, Any]:
        return {name: copy.deepcopy(part.state_dict()) for name, part in self._parts.items()}


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Divides a dataset among the ranks, and what is left of it among those of a new world."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """At the end of an epoch: the next one begins with all samples."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Each rank has processed so many samples."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        self.num_replicas, self.rank = world.size(), world.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        filled = left + left[: self.total_size - len(left)]
        return iter(filled[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``train(state, ...)``, which is called again after a loss of ranks."""

    @functools.wraps(function)
    def wrapper(state: State, *arguments: Any, **named: Any) -> Any:
        world.init()
        if isinstance(state, TorchState):
            state.load_commit()
        skips_sync = False
        while True:
            try:
                if not skips_sync:
                    state.sync()
                return function(state, *arguments, **named)
            except HorovodInternalError:
                world.connect_again()
                state.restore()
                skips_sync = False
            except HostsUpdatedInterrupt as interrupt:
                world.connect_again()
                skips_sync = interrupt.skip_sync
            state.on_reset()

    return wrapper


def _commit_file() -> Path | None:
    folder = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
    return Path(folder) / "horovod-elastic.pt" if folder else None
