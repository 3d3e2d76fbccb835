"""A step of PyTorch DDP: over the backend lockstep against over Gloo, same model and batch."""

import argparse

from _ranks import alternate, gloo, memory_probe, on_ranks, show
from _trainer import BATCH, Trainer, make_model
from torch.nn.parallel import DistributedDataParallel

LAYOUTS = [(2, 1), (2, 2), (4, 1), (4, 2)]  # ranks, hosts


def compare(rank: int, ranks: int, hosts: int, width: int, rounds: int, span: float) -> None:
    peer_group = gloo()
    ours, peer = (
        Trainer(DistributedDataParallel(make_model(width), process_group=group))
        for group in (None, peer_group)
    )
    our_time, peer_time = alternate(ours.step, peer.step, peer_group, rounds, span)
    if rank == 0:
        parameters = sum(parameter.numel() for parameter in ours.model.parameters())
        show(
            {
                "bench": "ddp",
                "case": "step",
                "ranks": ranks,
                "hosts": hosts,
                "parameters": parameters,
                "batch": BATCH,
                "dtype": "float32",
                "unit": "ms",
                "ours": our_time * 1e3,
                "peer": peer_time * 1e3,
                "peer_name": "gloo",
                "ratio": peer_time / our_time,
                "bar": 1.0,
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a small model, once")
    arguments = parser.parse_args()
    widths = [256] if arguments.quick else [256, 2048]
    layouts = [(2, 1), (4, 2)] if arguments.quick else LAYOUTS
    rounds, span = (2, 0.02) if arguments.quick else (7, 0.2)
    memory_probe("before")
    for width in widths:
        for ranks, hosts in layouts:
            on_ranks(ranks, hosts, compare, ranks, hosts, width, rounds, span)
    memory_probe("after")


if __name__ == "__main__":
    main()
