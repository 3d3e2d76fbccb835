"""A step of a script for Horovod, by lockstep.horovod.torch, against DDP over our backend."""

import argparse

import torch
from _ranks import alternate, memory_probe, on_ranks, show
from _trainer import BATCH, Trainer, make_model
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import lockstep.horovod.torch as hvd

LAYOUTS = [(2, 1), (4, 1)]  # ranks, hosts


class HorovodTrainer(Trainer):
    """The same step, with Horovod's optimizer in place of DDP's model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.optimizer: torch.optim.Optimizer = hvd.DistributedOptimizer(
            self.optimizer, model.named_parameters()
        )


def compare(rank: int, ranks: int, hosts: int, width: int, rounds: int, span: float) -> None:
    hvd.init()
    group = torch.distributed.new_group(backend="lockstep")
    ours = HorovodTrainer(make_model(width))
    peer = Trainer(DistributedDataParallel(make_model(width)))
    our_time, peer_time = alternate(ours.step, peer.step, group, rounds, span)
    if rank == 0:
        show(
            {
                "bench": "horovod",
                "case": "step",
                "ranks": ranks,
                "hosts": hosts,
                "parameters": sum(each.numel() for each in ours.model.parameters()),
                "batch": BATCH,
                "dtype": "float32",
                "unit": "ms",
                "ours": our_time * 1e3,
                "peer": peer_time * 1e3,
                "peer_name": "ddp",
                "ratio": peer_time / our_time,
                "bar": 1.0,
            }
        )
    hvd.barrier()
    hvd.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a small model, once")
    arguments = parser.parse_args()
    widths = [256] if arguments.quick else [256, 2048]
    layouts = [(2, 1)] if arguments.quick else LAYOUTS
    rounds, span = (2, 0.02) if arguments.quick else (7, 0.2)
    memory_probe("before")
    for width in widths:
        for ranks, hosts in layouts:
            on_ranks(ranks, hosts, compare, ranks, hosts, width, rounds, span)
    memory_probe("after")


if __name__ == "__main__":
    main()
