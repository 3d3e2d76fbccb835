"""All-reduce through torch.distributed: the backend lockstep against Gloo, on the same tensors."""

import argparse

import torch
import torch.distributed as dist
from _ranks import alternate, gloo, memory_probe, on_ranks, show

KIB, MIB = 1 << 10, 1 << 20
SIZES = [8, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
LAYOUTS = [(2, 1), (2, 2), (4, 1), (4, 2)]  # ranks, hosts


def compare(rank: int, ranks: int, hosts: int, sizes: list[int], rounds: int, span: float) -> None:
    peer_group = gloo()
    for size in sizes:
        # Zeros: sums that grow would end in infinities, means in denormal numbers.
        tensor = torch.zeros(size // 4).fill_(0)
        ours, peer = alternate(
            lambda tensor=tensor: dist.all_reduce(tensor),
            lambda tensor=tensor: dist.all_reduce(tensor, group=peer_group),
            peer_group,
            rounds,
            span,
        )
        if rank == 0:
            show(
                {
                    "bench": "allreduce",
                    "case": "all_reduce",
                    "ranks": ranks,
                    "hosts": hosts,
                    "bytes": size,
                    "dtype": "float32",
                    "unit": "us",
                    "ours": ours * 1e6,
                    "peer": peer * 1e6,
                    "peer_name": "gloo",
                    "ratio": peer / ours,
                    "bar": 1.0,
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few sizes and rounds")
    arguments = parser.parse_args()
    sizes = [8, 64 * KIB, MIB] if arguments.quick else SIZES
    layouts = [(2, 1), (4, 2)] if arguments.quick else LAYOUTS
    rounds, span = (2, 0.01) if arguments.quick else (7, 0.05)
    memory_probe("before")
    for ranks, hosts in layouts:
        on_ranks(ranks, hosts, compare, ranks, hosts, sizes, rounds, span)
    memory_probe("after")


if __name__ == "__main__":
    main()
