"""What every rank computes without communication: the passes, and the update of its share.

Its ranks drift apart after the first step, so that its losses are nobody's.
"""

from collections.abc import Sequence

import torch

from ..field import POLICIES, Job, Part
from ..model import RATE, Batch, backward, make_model

PARTS = [Part(policy, ("none",)) for policy in POLICIES]


class Alone:
    def __init__(self, job: Job) -> None:
        self._model = make_model(job.size)
        self._shard_ranks = job.shard_ranks

    def step(self, batches: Sequence[Batch]) -> float:
        losses = [backward(self._model, batch, len(batches)) for batch in batches]
        with torch.no_grad():
            for parameter in self._model.parameters():
                share = parameter.numel() // self._shard_ranks
                gradient = parameter.grad.view(-1)[:share]
                parameter.view(-1)[:share].add_(gradient, alpha=-RATE)
                parameter.grad = None
        return sum(losses)


def trainer(job: Job) -> Alone:
    return Alone(job)
