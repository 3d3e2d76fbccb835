"""Checkpoints in the engine's own format, and the order of the data."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from lockstep import _report, _whole
from lockstep._compiled import compiled, leave_groups_at_exit
from lockstep._shard import rank_and_world_size, sharded_of
from lockstep._whole import SavedTensor, StateTensor, needs_whole_parameters

# The checkpoint's names of an optimizer's state, by torch's names: the C++ optimizer uses the same.
STATE_NAMES = {
    "adamw": {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    "sgd": {"momentum_buffer": "momentum"},
}
NOT_OF_OPTIMIZERS = ("parameter/", "buffer/", "random/")
SAVING_BOUND = timedelta(minutes=30)


class Sampler:
    """The samples of each step: all once an epoch, in a random order.

    Iterating gives, step by step and without end, this rank's share of the global batch. The same
    seed gives the same batches at any number of ranks; a checkpoint keeps the position.
    """

    def __init__(self, samples: int, global_batch: int, seed: int = 0) -> None:
        self._core = compiled().Sampler(samples, global_batch, seed)

    def next(self) -> list[int]:
        """This rank's share of the next global batch."""
        return list(self._core.next(*rank_and_world_size()))

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

    Any number of ranks with any policy reads the checkpoints of any other, from C++ or from Python.
    """

    def __init__(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        sampler: Sampler | None = None,
        *,
        keep: int = 3,
        group: dist.ProcessGroup | None = None,
        write: bool | None = None,
    ) -> None:
        """Collective. One training at a time writes to a folder; any number may read.

        Args:
            optimizer: one that steps all parameters, or several that do so together.
            keep: the number of newest checkpoints that are kept.
            group: for messages of these ranks while the training continues; by default one is made.
            write: True claims the folder now, False never, and save() raises. By default the first
                save claims it; in a run with LOCKSTEP_CHECKPOINT_DIR as the folder this call does.

        Raises:
            ValueError: another run writes there; the message names it.
        """
        self._folder = str(folder)
        self._sharded = sharded_of(model)
        self._optimizer_state = OptimizerStates(self._sharded, optimizer)
        self._sampler = sampler or Sampler(1, self._sharded.core.world_size)
        self._keep, self._group, self._write = keep, group, write
        self._core: Any = None
        self.reopen()
        # The thread that saves needs a complete interpreter.
        atexit.register(_finish, weakref.ref(self))

    def reopen(self) -> None:
        """Uses the current ranks; gives up a save in flight that a rank failure interrupted."""
        self._core = None  # waits for the save in flight
        self._optimizer_state.update_sizes()
        own = self._sharded.recovery
        self._core = compiled().open_checkpointer(
            self._folder,
            self._claim_time(),
            own.generation if own is not None else 0,
            self._keep,
            self._ranks(),
            _report_saved,
            _report_rejected,
        )

    def _claim_time(self) -> Any:
        claiming = compiled().ClaimTime
        if self._write is None:
            return claiming.at_open if self._is_own_folder() else claiming.at_save
        return claiming.at_open if self._write else claiming.never

    def _is_own_folder(self) -> bool:
        """True if it is the folder of the run of which this process is a rank."""
        own = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
        if not own or "LOCKSTEP_ATTEMPT" not in os.environ:
            return False
        return os.path.realpath(own) == os.path.realpath(self._folder)

    def give_up(self) -> None:
        """For a rank that leaves: the other ranks complete the save in flight."""
        self._core = None

    def _ranks(self) -> Any:
        """A separate group, because a save runs in parallel with the training."""
        if self._sharded.core.is_server:
            return self._sharded.core.servers  # which train without messages between them
        if self._sharded.recovery is not None:
            return self._sharded.recovery.new_group(SAVING_BOUND.total_seconds())
        if self._group is None and self._sharded.core.world_size > 1:
            self._group = self._new_group(self._sharded.group)
        return self._group

    def _new_group(self, training: dist.ProcessGroup) -> dist.ProcessGroup:
        """For the CPU alone: each communicator of NCCL takes hundreds of MiB of the device."""
        if compiled().serves_cpu_only(training):
            return dist.new_group(timeout=SAVING_BOUND)
        group = None
        try:
            group = compiled().connect_on_cpu(training)
        except (dist.DistBackendError, ValueError) as error:
            _report.warn_and_report(f"checkpoints use the device's process group: {error}")
        if self._sharded.core.mean(float(group is not None)) == 1:
            leave_groups_at_exit()
            return group
        return dist.new_group(timeout=SAVING_BOUND)

    def resume(self) -> int:
        """Resumes from the newest intact checkpoint; returns the step after which it was taken, 0
        if none.

        Raises:
            ValueError: it is of another model or optimizer; the message names what differs.
        """
        return int(
            compiled().resume(
                self._folder,
                self._sharded.core,
                self._optimizer_state.method,
                self._optimizer_state.make_saved_state,
                self._optimizer_state.set_steps,
                self._sampler._core,
            )
        )

    def save(self, step: int, notes: Mapping[str, str] | None = None) -> float:
        """Copies this rank's share and writes it in the background; returns the seconds that it
        took.

        The first call claims the folder if the constructor has not, and raises ValueError if
        another run writes there.

        Waits for the save before. If that failed, raises its error on every rank and starts no
        save; the training may go on, and the next call tries again.
        """
        return float(
            self._core.save(
                self._sharded.core,
                step,
                self._optimizer_state.method,
                self._optimizer_state.steps(),
                self._optimizer_state.tensors(),
                self._sampler._core,
                dict(notes or {}),
            )
        )

    def finish(self) -> None:
        """Waits for the save in flight; raises its error."""
        self._core.finish()


class OptimizerState:
    """An optimizer's state, by the names of checkpoints."""

    def __init__(self, sharded: Any, optimizer: Optimizer) -> None:
        self._sharded = sharded
        self._optimizer = optimizer
        self.method = type(optimizer).__name__.lower()
        self._sizes: list[int] = sharded.core.owned_sizes()
        stepped = {id(each) for group in optimizer.param_groups for each in group["params"]}
        # The numbers of its parameters; of one optimizer, all.
        self.numbers = [
            number for number, each in enumerate(sharded.parameters) if id(each) in stepped
        ]

    def steps(self) -> int:
        counts = [state["step"] for state in self._optimizer.state.values() if "step" in state]
        on_device = [each for each in counts if isinstance(each, Tensor) and not each.is_cpu]
        # A device is read once: each read waits for all that is queued there.
        steps = set(torch.stack(on_device).tolist()) if on_device else set()
        steps |= {int(each) for each in counts if not isinstance(each, Tensor) or each.is_cpu}
        if len(steps) > 1:
            raise ValueError(f"parameters have taken different numbers of steps: {sorted(steps)}")
        return int(max(steps, default=0))

    def tensors(self) -> list[StateTensor]:
        """This rank's state. Torch keeps none for parameters of which this rank has no elements."""
        if needs_whole_parameters(self._optimizer):
            return _whole.state_of(self._optimizer, self._sharded, self.numbers)
        kinds = self._kinds()
        found: list[StateTensor] = []
        for number in self.numbers:
            parameter = self._sharded.parameters[number]
            state = self._optimizer.state.get(parameter, {})
            for key, (name, like) in kinds.items():
                value = state.get(key)
                if value is None:
                    value = self._zeros(number, like)
                found.append((f"{name}/{self._sharded.names[number]}", number, value))
        return found

    def make_saved_state(self, saved: list[SavedTensor]) -> list[StateTensor]:
        """New state for a checkpoint with these tensors, to be written to."""
        own = {self._sharded.names[number] for number in self.numbers}
        saved = [
            each
            for each in saved
            if not each[0].startswith(NOT_OF_OPTIMIZERS) and each[0].split("/", 1)[1] in own
        ]
        if needs_whole_parameters(self._optimizer):
            return _whole.make_state(self._optimizer, self._sharded, saved)
        return self.make_state([name for name, _, _ in saved])

    def make_state(self, names: list[str]) -> list[StateTensor]:
        """New state of the kinds that these names have, to be written to."""
        # In the order of the names, which is the order of tensors().
        kinds = dict.fromkeys(
            name.split("/", 1)[0] for name in names if not name.startswith(NOT_OF_OPTIMIZERS)
        )
        keys = {name: key for key, name in STATE_NAMES.get(self.method, {}).items()}
        self._optimizer.state.clear()
        made: list[StateTensor] = []
        for number in self.numbers:
            parameter = self._sharded.parameters[number]
            for kind in kinds:
                value = self._zeros(number, None)
                if self._sizes[number] > 0:
                    self._optimizer.state[parameter][keys.get(kind, kind)] = value
                made.append((f"{kind}/{self._sharded.names[number]}", number, value))
        return made

    def step(self) -> None:
        self._optimizer.step()

    def rebuild(self) -> None:
        """For changed slices, whose state is restored later."""
        self.update_sizes()
        self._optimizer.state.clear()

    def update_sizes(self) -> None:
        """The ranks and their slices may have changed."""
        self._sizes = self._sharded.core.owned_sizes()

    def scale_learning_rate(self, factor: float) -> None:
        self._sharded.learning_rate_scale = factor

    def set_steps(self, steps: int) -> None:
        if self.method == "sgd":
            return
        states, device = self._optimizer.state, self._sharded.core.optimizer_device
        for group in self._optimizer.param_groups:
            # As torch's load_state_dict: kernels of these read the number.
            read_by_kernels = group.get("fused") or group.get("capturable")
            for parameter in group["params"]:
                if parameter in states:
                    states[parameter]["step"] = (
                        torch.full((), float(steps), dtype=torch.float32, device=device)
                        if read_by_kernels
                        else torch.tensor(float(steps))
                    )

    def _kinds(self) -> dict[str, tuple[str, torch.dtype | None]]:
        """By torch's name: the checkpoint's name, and the type if a rank has some of it."""
        known = STATE_NAMES.get(self.method, {})
        kinds: dict[str, tuple[str, torch.dtype | None]] = {}
        if self.method == "adamw" or (self.method == "sgd" and self._has_momentum()):
            kinds = {key: (name, None) for key, name in known.items()}
        for number in self.numbers:
            parameter = self._sharded.parameters[number]
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
        return torch.zeros(shape, dtype=dtype, device=self._sharded.core.optimizer_device)


class OptimizerStates:
    """The state of the optimizers that step a model together."""

    def __init__(self, sharded: Any, optimizers: Optimizer | Sequence[Optimizer]) -> None:
        given = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
        self._parts = [OptimizerState(sharded, each) for each in given]
        self.method = "+".join(each.method for each in self._parts)
        stepped = [number for each in self._parts for number in each.numbers]
        for number, name in enumerate(sharded.names):
            if number not in stepped:
                raise ValueError(
                    f"the optimizer does not step {name}: give it all parameters, or give the list "
                    "of all optimizers"
                )
            if stepped.count(number) > 1:
                raise ValueError(f"several optimizers step {name}: give each parameter to one")

    def steps(self) -> int:
        return max(each.steps() for each in self._parts)

    def tensors(self) -> list[StateTensor]:
        return [tensor for each in self._parts for tensor in each.tensors()]

    def make_saved_state(self, saved: list[SavedTensor]) -> list[StateTensor]:
        return [tensor for each in self._parts for tensor in each.make_saved_state(saved)]

    def set_steps(self, steps: int) -> None:
        for each in self._parts:
            each.set_steps(steps)

    def update_sizes(self) -> None:
        for each in self._parts:
            each.update_sizes()


def _report_saved(step: int, path: str) -> None:
    _report.checkpoint(step, path)


def _report_rejected(fault: str, why: str) -> None:
    _report.fault(fault, why)


def _finish(checkpoints: weakref.ref[Checkpoints]) -> None:
    found = checkpoints()
    if found is not None and found._core is not None:
        try:
            found._core.finish()
        finally:
            found._core = None  # from now on another writer owns the folder
