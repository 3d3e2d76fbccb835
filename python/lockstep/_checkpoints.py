"""Checkpoints in the engine's own format, and the order of the data that goes with them."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from lockstep import _report
from lockstep._shard import rank_of_ranks, sharded_of
from lockstep.backend import compiled

# What the checkpoint calls an optimizer's state, by what torch calls it: as the C++ optimizer does.
SLOTS = {
    "adamw": {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    "sgd": {"momentum_buffer": "momentum"},
}
SAVING_BOUND = timedelta(minutes=30)


class Sampler:
    """Which samples each step trains on: all once an epoch, in a random order.

    Iterating gives, step by step and without end, this rank's share of the global batch. The same
    seed gives the same batches at any number of ranks; a checkpoint knows where it stands.
    """

    def __init__(self, samples: int, global_batch: int, seed: int = 0) -> None:
        self._core = compiled().Sampler(samples, global_batch, seed)

    def next(self) -> list[int]:
        """This rank's share of the next global batch."""
        return list(self._core.next(*rank_of_ranks()))

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield self.next()

    @property
    def seed(self) -> int:
        return int(self._core.seed)

    @property
    def global_batch(self) -> int:
        """Samples a step, over all ranks."""
        return int(self._core.global_batch)

    @property
    def cursor(self) -> int:
        """Samples given out so far, over all ranks."""
        return int(self._core.cursor)


class Checkpoints:
    """A run's checkpoints, which all ranks save and resume together.

    Any number of ranks and any policy reads what any other saved, from C++ or from Python.
    """

    def __init__(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer,
        sampler: Sampler | None = None,
        *,
        keep: int = 3,
        group: dist.ProcessGroup | None = None,
        write: bool | None = None,
    ) -> None:
        """Collective. One training at a time writes to a folder; any number read.

        Args:
            keep: so many are kept, the newest.
            group: for these ranks' words while the training goes on; by default one is made.
            write: True claims the folder now, False never, and save() raises. By default the first
                save claims it; in a run with LOCKSTEP_CHECKPOINT_DIR as the folder this call does.

        Raises:
            ValueError: another run writes there; the message names it.
        """
        self._folder = str(folder)
        self._sharded = sharded_of(model)
        self._slots = Slots(self._sharded, optimizer)
        self._sampler = sampler or Sampler(1, self._sharded.core.world_size)
        self._keep, self._group, self._write = keep, group, write
        self._core: Any = None
        self.reopen()
        # The thread that saves needs Python to be whole.
        atexit.register(_finish, weakref.ref(self))

    def reopen(self) -> None:
        """With the ranks as they are now; a save in flight that a death broke is given up."""
        self._core = None  # waits for what is in flight
        self._slots.measure()
        own = self._sharded.own_ranks
        self._core = compiled().open_checkpointer(
            self._folder,
            self._claiming(),
            own.generation if own is not None else 0,
            self._keep,
            self._ranks(),
            _report_saved,
            _report_kept_out,
        )

    def _claiming(self) -> Any:
        claiming = compiled().Claiming
        if self._write is None:
            return claiming.at_opening if self._is_own_folder() else claiming.at_save
        return claiming.at_opening if self._write else claiming.never

    def _is_own_folder(self) -> bool:
        """Of the run of which this process is a rank."""
        own = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
        if not own or "LOCKSTEP_ATTEMPT" not in os.environ:
            return False
        return os.path.realpath(own) == os.path.realpath(self._folder)

    def give_up(self) -> None:
        """Of a rank that leaves: what is in flight is the others'."""
        self._core = None

    def _ranks(self) -> Any:
        """A group of its own, since a save goes on beside the training."""
        if self._sharded.own_ranks is not None:
            return self._sharded.own_ranks.apart(SAVING_BOUND.total_seconds())
        if self._group is None and self._sharded.core.world_size > 1:
            self._group = dist.new_group(timeout=SAVING_BOUND)
        return self._group

    def resume(self) -> int:
        """Goes on from the newest whole checkpoint; the step after which it was taken, 0 if none.

        Raises:
            ValueError: it is of another model or optimizer; the message names what differs.
        """
        return int(
            compiled().resume(
                self._folder,
                self._sharded.core,
                self._slots.method,
                self._slots.made_for,
                self._slots.set_steps,
                self._sampler._core,
            )
        )

    def save(self, step: int, notes: Mapping[str, str] | None = None) -> float:
        """Copies this rank's share and writes it in the background; the seconds that it took.

        The first claims the folder where the constructor has not, and raises ValueError where
        another run writes there.

        Waits for the save before. If that failed, raises its error on every rank and begins
        nothing; the training may go on, and the next call tries again.
        """
        return float(
            self._core.save(
                self._sharded.core,
                step,
                self._slots.method,
                self._slots.steps(),
                self._slots.tensors(),
                self._sampler._core,
                dict(notes or {}),
            )
        )

    def finish(self) -> None:
        """Waits for the save in flight; raises what went wrong."""
        self._core.finish()


class Slots:
    """An optimizer's state, by the names of checkpoints."""

    def __init__(self, sharded: Any, optimizer: Optimizer) -> None:
        self._sharded = sharded
        self._optimizer = optimizer
        self.method = type(optimizer).__name__.lower()
        self._sizes: list[int] = sharded.core.owned_sizes()
        stepped = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for name, parameter in zip(sharded.names, sharded.parameters, strict=True):
            if id(parameter) not in stepped:
                raise ValueError(f"the optimizer does not step {name}: give it all parameters")

    def steps(self) -> int:
        steps = {int(state["step"]) for state in self._optimizer.state.values() if "step" in state}
        if len(steps) > 1:
            raise ValueError(f"parameters have taken different numbers of steps: {sorted(steps)}")
        return max(steps, default=0)

    def tensors(self) -> list[tuple[str, int, Tensor]]:
        """This rank's state. Of what nothing is this rank's, torch keeps none."""
        kinds = self._kinds()
        found = []
        for number, parameter in enumerate(self._sharded.parameters):
            state = self._optimizer.state.get(parameter, {})
            for key, (name, like) in kinds.items():
                value = state.get(key)
                if value is None:
                    value = self._zeros(number, like)
                found.append((f"{name}/{self._sharded.names[number]}", number, value))
        return found

    def made_for(self, names: list[str]) -> list[tuple[str, int, Tensor]]:
        """New state of the kinds that these names have, to be written to."""
        # In the order of the names, which is that of tensors() wherever they come from.
        kinds = dict.fromkeys(name.split("/", 1)[0] for name in names)
        for other in ("parameter", "buffer", "random"):
            kinds.pop(other, None)
        keys = {name: key for key, name in SLOTS.get(self.method, {}).items()}
        self._optimizer.state.clear()
        made = []
        for number, parameter in enumerate(self._sharded.parameters):
            for kind in kinds:
                value = self._zeros(number, None)
                if self._sizes[number] > 0:
                    self._optimizer.state[parameter][keys.get(kind, kind)] = value
                made.append((f"{kind}/{self._sharded.names[number]}", number, value))
        return made

    def step(self) -> None:
        self._optimizer.step()

    def remake(self) -> None:
        """For other slices than before, whose state is to come."""
        self.measure()
        self._optimizer.state.clear()

    def measure(self) -> None:
        """The ranks may have become others, and their slices."""
        self._sizes = self._sharded.core.owned_sizes()

    def scale_learning_rate(self, factor: float) -> None:
        self._sharded.learning_rate_scale = factor

    def set_steps(self, steps: int) -> None:
        if self.method == "sgd":
            return
        for state in self._optimizer.state.values():
            state["step"] = torch.tensor(float(steps))

    def _kinds(self) -> dict[str, tuple[str, torch.dtype | None]]:
        """By torch's name: the checkpoint's, and the type where a rank has some of it."""
        known = SLOTS.get(self.method, {})
        kinds: dict[str, tuple[str, torch.dtype | None]] = {}
        if self.method == "adamw" or (self.method == "sgd" and self._has_momentum()):
            kinds = {key: (name, None) for key, name in known.items()}
        for number, parameter in enumerate(self._sharded.parameters):
            for key, value in self._optimizer.state.get(parameter, {}).items():
                if key == "step" or value is None:
                    continue
                if not isinstance(value, Tensor) or value.numel() != self._sizes[number]:
                    raise ValueError(
                        f"{key} of {type(self._optimizer).__name__} is not by element: checkpoints "
                        "hold no such state"
                    )
                kinds[key] = (known.get(key, key), value.dtype)
        return kinds

    def _has_momentum(self) -> bool:
        return any(group.get("momentum") for group in self._optimizer.param_groups)

    def _zeros(self, number: int, dtype: torch.dtype | None) -> Tensor:
        parameter = self._sharded.parameters[number]
        narrow = parameter.dtype in (torch.float16, torch.bfloat16)
        dtype = dtype or (torch.float32 if narrow else parameter.dtype)
        whole = self._sharded.core.slices_are_whole()
        shape = parameter.shape if whole else (self._sizes[number],)
        return torch.zeros(shape, dtype=dtype, device=parameter.device)


def _report_saved(step: int, path: str) -> None:
    _report.checkpoint(step, path)


def _report_kept_out(fault: str, why: str) -> None:
    _report.fault(fault, why)


def _finish(checkpoints: weakref.ref[Checkpoints]) -> None:
    found = checkpoints()
    if found is not None and found._core is not None:
        try:
            found._core.finish()
        finally:
            found._core = None  # the folder is another's to write from now on
