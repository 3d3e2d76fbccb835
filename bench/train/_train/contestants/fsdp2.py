"""PyTorch's FSDP2: full shard, and hybrid, whose replicas add up after the last micro-batch."""

from collections.abc import Sequence

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ..field import Job, Part
from ..model import Batch, backward, make_model, make_optimizer

PARTS = [Part("zero3", ("gloo", "lockstep")), Part("mics", ("gloo", "lockstep"))]


class Fsdp2:
    def __init__(self, job: Job) -> None:
        self._model = make_model(job.size)
        if job.policy == "mics":
            shape, names = (job.hosts, job.ranks_a_host), ("replicate", "shard")
        else:
            shape, names = (job.ranks,), ("shard",)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        for unit in (*self._model, self._model):
            fully_shard(unit, mesh=mesh)
            # Gloo lends no memory.
            unit.set_allocate_memory_from_process_group_for_comm(job.backend != "gloo")
        self._optimizer = make_optimizer(self._model.parameters())

    def step(self, batches: Sequence[Batch]) -> float:
        losses = []
        for number, batch in enumerate(batches, start=1):
            self._model.set_requires_all_reduce(number == len(batches))
            losses.append(backward(self._model, batch, len(batches)))
        self._optimizer.step()
        self._optimizer.zero_grad()
        return sum(losses)


def trainer(job: Job) -> Fsdp2:
    return Fsdp2(job)
