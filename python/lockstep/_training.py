"""Training: a loop that continues when ranks are lost; docs/guide/train.md."""

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
from lockstep._checkpoints import Checkpoints, OptimizerState, OptimizerStates, Sampler
from lockstep._compiled import compiled
from lockstep._shard import sharded_of
from lockstep._step_times import number_next
from lockstep._whole import needs_whole_parameters


class MicroBatch(NamedTuple):
    """The samples that a rank computes at once."""

    samples: list[int]
    # The weight of their mean loss in the step's loss. All micro-batches have equal weights if they
    # have equally many samples.
    weight: float


class Training:
    """A model, its optimizer and its data, step by step, across rank failures.

    In a run with ``--on-failure shrink`` or ``wait`` the others continue when a rank is lost: with
    the remaining replicas, or with a replacement. The state comes from memory if a living rank
    holds the lost part, else from the newest checkpoint. The global batch does not change, and no
    step is counted twice::

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
        micro_batches: int = 1,
        rescale_batch: bool = False,
        save_every: int = 0,
    ) -> None:
        """Communicates nothing yet.

        Args:
            model: one that lockstep.shard has connected, without
                torch.distributed.init_process_group, whose groups end when a rank dies.
            checkpoints: the folder to resume from, and of Step.save; None: there are none. One
                training at a time writes there: steps() raises ValueError and names the other.
            keep: the number of newest checkpoints that are kept.
            notes: the program's own notes, kept with each of them.
            micro_batches: the number of micro-batches in which each rank computes its share of the
                global batch, for the current number of ranks; fewer ranks compute more of them, of
                no more samples each.
            rescale_batch: when fewer ranks continue, the global batch shrinks with their number,
                and the learning rate with the batch; by default each of them computes more samples.
            save_every: with parameter servers, which save the checkpoints: after so many steps, and
                after the last; 0: after the last only.
        """
        self._model, self._optimizer, self._sampler = model, optimizer, sampler
        self._sharded = sharded_of(model)
        self._core = self._sharded.core
        self._optimizer_state = OptimizerState(self._sharded, optimizer)
        self._check_optimizer(optimizer)
        self._folder, self._keep, self._notes = checkpoints, keep, dict(notes or {})
        self._save_every = save_every
        self._checkpoints: Checkpoints | None = None
        self._micro_batch_max = -(-sampler.global_batch // (self.world_size * micro_batches))
        self._recovery = self._sharded.recovery
        if self._recovery is not None:
            self._recovery.configure(str(checkpoints or ""), rescale_batch)
        elif (
            os.environ.get("LOCKSTEP_ON_FAILURE") in ("shrink", "wait")
            and dist.is_initialized()
            and self._core.task is None
            and not self._core.is_server
        ):
            raise ValueError(
                "torch.distributed's groups end when a rank dies, and no rank continues: leave "
                "init_process_group out, lockstep.shard connects the ranks"
            )
        self._done = self._last = 0
        self._has_met_servers = False  # a call of steps() has used the servers
        self._save_requested_at = 0  # after which step a checkpoint was last requested

    def _check_optimizer(self, optimizer: Optimizer) -> None:
        OptimizerStates(self._sharded, optimizer)
        continues = os.environ.get("LOCKSTEP_ON_FAILURE") in ("shrink", "wait")
        if continues and needs_whole_parameters(optimizer) and not self._core.slices_are_whole():
            raise ValueError(
                f"{type(optimizer).__name__} needs whole parameters, and the state of each is on "
                "one rank, which cannot be replaced from memory: start the run with --on-failure "
                "restart, or use policy ddp, or AdamW"
            )

    @property
    def rank(self) -> int:
        """Among the remaining ranks, which are renumbered."""
        return int(self._core.run_rank)

    @property
    def world_size(self) -> int:
        """The remaining ranks; with parameter servers, the workers at the start."""
        task = self._core.task
        return int(self._core.world_size) if task is None else task[2]

    def mean(self, value: float) -> float:
        """The mean over the ranks; every rank calls it. Within a step, use it inside its `with`."""
        return float(self._core.mean(float(value)))

    def steps(self, last: int) -> Iterator[Step]:
        """The remaining steps up to `last`, counted from 1: from the newest checkpoint on.

        The body of a step's `with` may run again, from its start. With parameter servers a worker
        gets its shares of steps, and a server yields none: it returns when all workers have ended.
        There it is called once: another call raises ValueError.
        """
        self._last = last
        if self._core.is_server or self._core.task is not None:
            yield from self._steps_with_servers()
            return
        self._begin()
        while self._done < last:
            step = Step(self, self._done + 1, is_last=self._done + 1 == last)
            yield step
            if not step.is_closed:
                raise RuntimeError("a step was not taken: compute it within `with step:`")

    def _steps_with_servers(self) -> Iterator[Step]:
        if self._has_met_servers:
            raise ValueError(
                "with parameter servers training.steps() is called once, because the servers end "
                "with it: give the first call the last step of all"
            )
        self._has_met_servers = True
        if self._core.is_server:
            self._serve()
        else:
            yield from self._steps_of_worker()

    def _steps_of_worker(self) -> Iterator[Step]:
        while (task := self._core.task)[0] < self._last:
            self._done = task[0]  # all steps before may have been computed by other workers
            self._sampler._core.seek(task[0])
            step = Step(self, task[0] + 1, is_last=task[0] + 1 == self._last)
            yield step
            if not step.is_closed:
                raise RuntimeError("a step was not taken: compute it within `with step:`")
            if self._core.task == task:
                raise RuntimeError("a step ended without optimizer.step()")
        self._core.leave_servers()

    def _serve(self) -> None:
        core = self._core
        self._open_checkpoints()
        if self._checkpoints is not None:
            self._done = self._checkpoints.resume()
        core.start_server(self._done)
        while (update := core.wait_update()) is not None:
            self._done, has_gradients, rates = update
            if has_gradients:
                self._set_learning_rates(rates)
                number_next(self._done)
                self._optimizer.step()
            core.publish()
            self._sampler._core.advance()
            self._save_update()
        if self._checkpoints is not None:
            self._checkpoints.finish()
        core.sync_parameters()  # the module has all parameters, as on any rank of another policy

    def _set_learning_rates(self, rates: list[float]) -> None:
        groups = self._optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"a worker's optimizer has {len(rates)} parameter groups, and this server's has "
                f"{len(groups)}: make the same optimizer on all ranks"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate

    def _save_update(self) -> None:
        due = self._save_every > 0 and self._done % self._save_every == 0
        if self._checkpoints is not None and (due or self._done == self._last):
            self._checkpoints.save(self._done, self._notes)

    def _begin(self) -> None:
        if self._recovery is not None and self._recovery.is_replacement:
            recovered = self._recovery.complete_replacement(
                self._core, self._sampler._core, self._optimizer_state
            )
            self._done = recovered.step
            self._recover_until_done(self._catch_rank_failure(self._resume_after_recovery))
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
        number_next(self._done + 1)
        if self._recovery is not None:
            self._recovery.begin_step(
                self._done, self._core, self._sampler._core, self._optimizer_state
            )

    def _micro_batches(self) -> Iterator[MicroBatch]:
        core, sampler = self._core, self._sampler._core
        batches = compiled().micro_batches_of(sampler, self._micro_batch_max, core)
        for number, (samples, weight) in enumerate(batches, start=1):
            core.set_sync(number == len(batches))  # the last exchanges the gradients
            yield MicroBatch(samples, weight)
        sampler.advance()

    def _save(self, step: int) -> None:
        if self._core.task is not None:
            raise ValueError(
                "a worker has no state to save, the servers have: leave step.save() out, and give "
                "lockstep.Training save_every"
            )
        if self._checkpoints is None:
            raise ValueError("this training has no checkpoints: give lockstep.Training a folder")
        self._save_requested_at = step
        self._checkpoints.save(step, self._notes)

    def _end_step(self, step: int) -> None:
        self._done = step
        if step == self._last and self._checkpoints is not None:
            self._checkpoints.finish()

    def _may_be_rank_failure(self, error: BaseException) -> bool:
        if self._recovery is None:
            return False
        is_ours = isinstance(error, dist.DistBackendError)
        return is_ours or (isinstance(error, Exception) and self._core.has_failed())

    def _catch_rank_failure(self, act: Callable[[], None]) -> BaseException | None:
        """The error that may be another rank failure; raises any other."""
        try:
            act()
        except Exception as error:
            if not self._may_be_rank_failure(error):
                raise
            return error
        return None

    def _recover_until_done(self, error: BaseException | None) -> None:
        while error is not None:  # other ranks may fail at once; each time fewer are left, or none
            self._recover(error)
            error = self._catch_rank_failure(self._resume_after_recovery)

    def _recover(self, error: BaseException) -> None:
        """Returns when the others do; raises if no rank failure was the cause, or no rank can
        continue."""
        recovered = self._recovery.recover(
            self._core, self._sampler._core, self._optimizer_state, str(error)
        )
        if recovered.leaves:
            print(f"lockstep: {recovered.description}", file=sys.stderr, flush=True)
            if self._checkpoints is not None:
                self._checkpoints.give_up()
            raise SystemExit(0)
        self._done = recovered.step
        if recovered.reports:
            _report.warn_and_report(recovered.description)

    def _resume_after_recovery(self) -> None:
        self._open_checkpoints()
        if self._checkpoints is None or self._done < self._last:
            return
        # No step follows, and the failure may have destroyed the last step's checkpoint.
        if self._core.mean(float(self._save_requested_at == self._done)) > 0:
            self._save(self._done)
            self._checkpoints.finish()


class Step:
    """One step of a Training. Iterating gives this rank's micro-batches, once."""

    def __init__(self, training: Training, number: int, is_last: bool) -> None:
        self._training = training
        self.number = number  # counted from 1
        self.is_last = is_last
        self.is_closed = False
        self._is_computed = False

    def __iter__(self) -> Iterator[MicroBatch]:
        """The micro-batches' gradients add up to the gradient of the mean over the global batch."""
        yield from self._training._micro_batches()
        self._is_computed = True

    def save(self) -> None:
        """Call it after optimizer.step(): saves a checkpoint in the background."""
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
            error = self._training._catch_rank_failure(self._end)
        elif not self._training._may_be_rank_failure(error):
            return False
        self._training._recover_until_done(error)
        return True

    def _end(self) -> None:
        if not self._is_computed:
            raise ValueError("a step ended before all its micro-batches were computed")
        self._training._end_step(self.number)
