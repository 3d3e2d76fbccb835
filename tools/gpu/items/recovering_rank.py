"""A rank of the items of failures.py: trains under `lockstep run`, and may be killed."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from models import IN, OUT, net, wave
from torch import nn

import lockstep
from gpu import devices
from gpu.training import adamw

SAMPLES, GLOBAL_BATCH = 240, 12
PAUSE = 0.05  # seconds of a step, so that a rank is killed within the training


def join_and_die(kind: str) -> None:
    """With torch's own group: rank 1 of the first attempt dies before NCCL has connected it."""
    dist.init_process_group(f"{kind}:{devices.BACKENDS[kind]}")
    if os.environ["LOCKSTEP_EPOCH"] == "1" and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def batch_of(samples: list[int], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.stack([wave(IN, phase=sample) for sample in samples])
    y = torch.stack([wave(OUT, phase=sample + 0.5) for sample in samples])
    return x.to(device), y.to(device)


def main() -> None:
    kind, fate, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    devices.prepare(kind)
    device = devices.use(kind, int(os.environ["LOCAL_RANK"]))
    if fate == "dies":
        join_and_die(kind)
    model = lockstep.shard(net(device), "ddp")
    optimizer = adamw(model.parameters())
    sampler = lockstep.Sampler(SAMPLES, GLOBAL_BATCH, seed=1)
    training = lockstep.Training(model, optimizer, sampler)
    for step in training.steps(steps):
        with step:
            for samples, weight in step:
                x, y = batch_of(samples, device)
                (nn.functional.mse_loss(model(x), y) * weight).backward()
            optimizer.step()
            optimizer.zero_grad()
        lockstep.progress(step.number, steps)
        time.sleep(PAUSE)
    total = sum(each.detach().double().sum().item() for each in model.parameters())
    print(f"the sum is {total!r}")


if __name__ == "__main__":
    main()
