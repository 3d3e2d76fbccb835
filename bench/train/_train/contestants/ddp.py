"""PyTorch's DistributedDataParallel: gradients are added up after the last micro-batch only."""

from collections.abc import Sequence

from torch.nn.parallel import DistributedDataParallel

from ..field import Job, Part
from ..model import Batch, backward, make_model, make_optimizer

PARTS = [Part("ddp", ("gloo", "lockstep"))]


class Ddp:
    def __init__(self, job: Job) -> None:
        # As its guide advises: gradients lie in the buckets that travel.
        self._model = DistributedDataParallel(make_model(job.size), gradient_as_bucket_view=True)
        self._optimizer = make_optimizer(self._model.parameters())

    def step(self, batches: Sequence[Batch]) -> float:
        with self._model.no_sync():
            losses = [backward(self._model, batch, len(batches)) for batch in batches[:-1]]
        losses.append(backward(self._model, batches[-1], len(batches)))
        self._optimizer.step()
        self._optimizer.zero_grad()
        return sum(losses)


def trainer(job: Job) -> Ddp:
    return Ddp(job)
