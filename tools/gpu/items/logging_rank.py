"""A rank of the item `telemetry`: logs tensors of its device under `lockstep run`."""

from __future__ import annotations

import os
import sys

import torch

import lockstep
from gpu import devices


def main() -> None:
    kind = sys.argv[1]
    devices.prepare(kind)
    device = devices.use(kind)
    for step in range(1, 6):
        lockstep.log({"loss": torch.full((), 0.5 * step, device=device)}, step=step)
    devices.synchronize(device)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    print(f"CUDA_VISIBLE_DEVICES is {visible}, on {len(os.sched_getaffinity(0))} processors")


if __name__ == "__main__":
    main()
