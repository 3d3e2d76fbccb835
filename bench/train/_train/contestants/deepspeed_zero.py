"""DeepSpeed's ZeRO-3 and MiCS; the latter with the call that our package brings along for it."""

import os
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from lockstep._torch import mics

from ..field import ROWS, Job, Part
from ..model import Batch, loss_of, make_model, make_optimizer

IMPORTS = ("deepspeed", "deepspeed.runtime.zero.stage3", "deepspeed.runtime.zero.mics")
PARTS = [
    Part("zero3", ("gloo", "lockstep"), imports=IMPORTS, packages=True),
    Part("mics", ("gloo", "lockstep"), imports=IMPORTS, packages=True),
]


class DeepSpeed:
    def __init__(self, job: Job) -> None:
        import deepspeed  # type: ignore[import-not-found, unused-ignore] # found by ranks only

        mics.complete_torch()
        # It would compile what only inference calls.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        os.environ["LOCAL_RANK"] = str(dist.get_rank() % job.ranks_a_host)
        os.environ["LOCAL_SIZE"] = str(job.ranks_a_host)
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(dist.get_rank()), str(job.ranks)
        model = make_model(job.size)
        self._engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=make_optimizer(model.parameters()),
            config=settings(job),
            dist_init_required=False,
        )

    def step(self, batches: Sequence[Batch]) -> float:
        losses = []
        for batch in batches:
            loss = loss_of(self._engine, batch)
            self._engine.backward(loss)
            self._engine.step()
            losses.append(loss.item())
        return sum(losses) / len(batches)


def settings(job: Job) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": 3}
    if job.policy == "mics":
        # Within a host there is no hierarchy that a gather could use.
        zero |= {"mics_shard_size": job.shard_ranks, "mics_hierarchical_params_gather": False}
    return {
        "train_micro_batch_size_per_gpu": ROWS,
        "gradient_accumulation_steps": job.micro_steps,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
    }


def trainer(job: Job) -> DeepSpeed:
    return DeepSpeed(job)
