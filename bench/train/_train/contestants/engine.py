"""Lockstep's own engine: blocks are the model's children, module and optimizer stay PyTorch's."""

from collections.abc import Sequence

import lockstep

from ..field import POLICIES, Job, Part
from ..model import Batch, backward, make_model, make_optimizer

PARTS = [Part(policy, ("lockstep",)) for policy in POLICIES]


class Engine:
    def __init__(self, job: Job) -> None:
        policy = f"mics:{job.ranks_a_host}" if job.policy == "mics" else job.policy
        self._model = lockstep.shard(make_model(job.size), policy=policy)
        self._optimizer = make_optimizer(self._model.parameters())

    def step(self, batches: Sequence[Batch]) -> float:
        with lockstep.no_sync(self._model):
            losses = [backward(self._model, batch, len(batches)) for batch in batches[:-1]]
        losses.append(backward(self._model, batches[-1], len(batches)))
        self._optimizer.step()
        self._optimizer.zero_grad()
        return sum(losses)


def trainer(job: Job) -> Engine:
    return Engine(job)
