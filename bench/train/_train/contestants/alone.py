"""The computation of every rank without communication: the passes, and the update of its share.

Its ranks drift apart after the first step, so its losses match no other contestant.
"""

import time
from collections.abc import Sequence

import torch

from ..field import POLICIES, Job, Part
from ..model import RATE, Batch, loss_of, make_model

PARTS = [Part(policy, ("none",)) for policy in POLICIES]


class Alone:
    def __init__(self, job: Job) -> None:
        self._model = make_model(job.size)
        self._shard_ranks = job.shard_ranks
        # Seconds of the last step's: a forward, and the update.
        self.forward = self.update = 0.0

    def step(self, batches: Sequence[Batch]) -> float:
        losses = [self._pass(batch, len(batches)) for batch in batches]
        begin = time.monotonic()
        self._step()
        self.update = time.monotonic() - begin
        return sum(losses)

    def _pass(self, batch: Batch, micro_steps: int) -> float:
        begin = time.monotonic()
        loss = loss_of(self._model, batch) / micro_steps
        self.forward = time.monotonic() - begin
        loss.backward()
        return loss.item()

    def _step(self) -> None:
        with torch.no_grad():
            for parameter in self._model.parameters():
                share = parameter.numel() // self._shard_ranks
                gradient = parameter.grad.view(-1)[:share]
                parameter.view(-1)[:share].add_(gradient, alpha=-RATE)
                parameter.grad = None


def trainer(job: Job) -> Alone:
    return Alone(job)
