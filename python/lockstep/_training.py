"""Training: a loop that goes on when ranks die; docs/guide/train.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from lockstep import _report
from lockstep._checkpoints import Checkpoints, Sampler, Slots
from lockstep._shard import sharded_of
from lockstep.backend import compiled


class Part(NamedTuple):
    """What a rank computes at once."""

    samples: list[int]
    # Of the mean loss over them in the step's loss. All ranks' parts have equally large weights if
    # they have equally many samples.
    weight: float


class Training:
    """A model, its optimizer and its data, step by step, whoever dies meanwhile.

    In a run with ``--on-failure shrink`` or ``wait`` the others go on when a rank dies: with the
    replicas that are left, or with another rank in its place; from memory where a living rank holds
    what the dead one held, else from the newest checkpoint. The global batch stays as it was, and
    no step is counted twice::

        training = lockstep.Training(model, optimizer, sampler, checkpoints=folder)
        for step in training.steps(1000):
            with step:
                for samples, weight in step:
                    (loss_of(model, samples) * weight).backward()
                optimizer.step()
                optimizer.zero_grad()
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        sampler: Sampler,
        *,
        checkpoints: str | Path | None = None,
        keep: int = 3,
        notes: Mapping[str, str] | None = None,
        parts: int = 1,
        rescale: bool = False,
    ) -> None:
        """Nothing is communicated yet.

        Args:
            model: one that lockstep.shard has connected, without
                torch.distributed.init_process_group, whose groups end when a rank dies.
            checkpoints: the folder to go on from, and of Step.save; None: there are none. One
                training at a time writes there: steps() raises ValueError and names the other.
            keep: so many checkpoints are kept, the newest.
            notes: the program's own words, kept with each of them.
            parts: in so many each rank computes its share of the global batch, as long as there are
                as many ranks as now; fewer take more parts, of no more samples at once.
            rescale: when fewer ranks go on the global batch shrinks as they do, and the learning
                rate as the batch; by default each of them computes more samples.
        """
        self._model, self._optimizer, self._sampler = model, optimizer, sampler
        self._sharded = sharded_of(model)
        self._core = self._sharded.core
        self._slots = Slots(self._sharded, optimizer)
        self._folder, self._keep, self._notes = checkpoints, keep, dict(notes or {})
        self._checkpoints: Checkpoints | None = None
        self._at_once = -(-sampler.global_batch // (self._core.world_size * parts))
        self._recovery = self._sharded.own_ranks
        if self._recovery is not None:
            self._recovery.set_up(str(checkpoints or ""), rescale)
        elif os.environ.get("LOCKSTEP_ON_FAILURE") in ("shrink", "wait") and dist.is_initialized():
            raise ValueError(
                "torch.distributed's groups end when a rank dies, and nobody goes on: leave "
                "init_process_group out, lockstep.shard connects the ranks"
            )
        self._done = self._last = 0
        self._asked = 0  # after which step a checkpoint was asked for last

    @property
    def rank(self) -> int:
        """Of those that are left, which are numbered anew."""
        return int(self._core.rank)

    @property
    def world_size(self) -> int:
        return int(self._core.world_size)

    def mean(self, value: float) -> float:
        """The mean over the ranks; every rank calls it. Within a step: `with` it."""
        return float(self._core.mean(float(value)))

    def steps(self, last: int) -> Iterator[Step]:
        """The steps that are left up to `last`, counted from 1: from the newest checkpoint on.

        What stands in a step's `with` may run again, from where it began.
        """
        self._last = last
        self._begin()
        while self._done < last:
            step = Step(self, self._done + 1, is_last=self._done + 1 == last)
            yield step
            if not step.is_closed:
                raise RuntimeError("a step was not taken: compute it within `with step:`")

    def _begin(self) -> None:
        if self._recovery is not None and self._recovery.joining:
            recovered = self._recovery.complete(self._core, self._sampler._core, self._slots)
            self._done = recovered.step
            self._recover_from(self._attempt(self._go_on))
            return
        self._open_checkpoints()
        if self._checkpoints is not None:
            self._done = self._checkpoints.resume()

    def _open_checkpoints(self) -> None:
        if self._folder is None:
            return
        if self._checkpoints is not None:
            self._checkpoints.reopen()
            return
        self._checkpoints = Checkpoints(
            self._folder,
            self._model,
            self._optimizer,
            self._sampler,
            keep=self._keep,
            write=True,
        )

    def _begin_step(self) -> None:
        if self._recovery is not None:
            self._recovery.begin_step(self._done, self._core, self._sampler._core, self._slots)

    def _parts(self) -> Iterator[Part]:
        core, sampler = self._core, self._sampler._core
        parts = compiled().share_of_batch(sampler, self._at_once, core)
        for number, (samples, weight) in enumerate(parts, start=1):
            core.set_sync(number == len(parts))  # the last exchanges the gradients
            yield Part(samples, weight)
        sampler.advance()

    def _save(self, step: int) -> None:
        if self._checkpoints is None:
            raise ValueError("this training has no checkpoints: give lockstep.Training a folder")
        self._asked = step
        self._checkpoints.save(step, self._notes)

    def _end_step(self, step: int) -> None:
        self._done = step
        if step == self._last and self._checkpoints is not None:
            self._checkpoints.finish()

    def _may_be_a_death(self, error: BaseException) -> bool:
        if self._recovery is None:
            return False
        is_ours = isinstance(error, dist.DistBackendError)
        return is_ours or (isinstance(error, Exception) and self._core.broken())

    def _attempt(self, act: Callable[[], None]) -> BaseException | None:
        """The error that may be another death; others are raised."""
        try:
            act()
        except Exception as error:
            if not self._may_be_a_death(error):
                raise
            return error
        return None

    def _recover_from(self, error: BaseException | None) -> None:
        while error is not None:  # others may die at once; each time there are fewer, or nobody
            self._recover(error)
            error = self._attempt(self._go_on)

    def _recover(self, error: BaseException) -> None:
        """Returns when the others do; raises if no death was to blame, or nobody can go on."""
        recovered = self._recovery.recover(self._core, self._sampler._core, self._slots, str(error))
        if recovered.leaves:
            print(f"lockstep: {recovered.story}", file=sys.stderr, flush=True)
            if self._checkpoints is not None:
                self._checkpoints.give_up()
            raise SystemExit(0)
        self._done = recovered.step
        if recovered.tells:
            _report.warn_of(recovered.story)

    def _go_on(self) -> None:
        self._open_checkpoints()
        if self._checkpoints is None or self._done < self._last:
            return
        # No step follows, and of the last one's checkpoint the death may have been the end.
        if self._core.mean(float(self._asked == self._done)) > 0:
            self._save(self._done)
            self._checkpoints.finish()


class Step:
    """One step of a Training. Iterating gives this rank's parts of the batch, once."""

    def __init__(self, training: Training, number: int, is_last: bool) -> None:
        self._training = training
        self.number = number  # counted from 1
        self.is_last = is_last
        self.is_closed = False
        self._is_computed = False

    def __iter__(self) -> Iterator[Part]:
        """The gradients of the parts add up to those of the mean over the global batch."""
        yield from self._training._parts()
        self._is_computed = True

    def save(self) -> None:
        """After optimizer.step(): a checkpoint, written while the training goes on."""
        self._training._save(self.number)

    def __enter__(self) -> Step:
        self._training._begin_step()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.is_closed = True
        if error is None:
            error = self._training._attempt(self._end)
        elif not self._training._may_be_a_death(error):
            return False
        self._training._recover_from(error)
        return True

    def _end(self) -> None:
        if not self._is_computed:
            raise ValueError("a step ended before all parts of its batch were computed")
        self._training._end_step(self.number)
