"""All-reduce as a training script calls it, torch.distributed.all_reduce: lockstep against Gloo.

It adds what the contest leaves out: c10d's own cost, and ranks on several hosts, which are
pretended on one: those on different ones share no memory.
"""

import os

import torch
import torch.distributed as dist
from _ranks import alternate, gloo, on_ranks, show

KIB, MIB = 1 << 10, 1 << 20
SIZES = [8, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB]
QUICK_SIZES = [8, 64 * KIB, MIB]
LAYOUTS = [(2, 1), (2, 2), (4, 1), (4, 2)]  # ranks, hosts
QUICK_LAYOUTS = [(2, 1), (4, 2)]
ZERO_COPY_BARS = {4 * MIB: 8.0, 16 * MIB: 6.0, 64 * MIB: 6.0}


def through_torch(quick: bool) -> None:
    rounds, span = (2, 0.01) if quick else (7, 0.05)
    for ranks, hosts in QUICK_LAYOUTS if quick else LAYOUTS:
        sizes = QUICK_SIZES if quick else SIZES
        _compare_on(ranks, hosts, dict.fromkeys(sizes, 1.0), rounds, span, zero_copy=False)
    _compare_on(4, 1, {4 * MIB: 8.0} if quick else ZERO_COPY_BARS, rounds, span, zero_copy=True)


def _compare_on(
    ranks: int, hosts: int, bars: dict[int, float], rounds: int, span: float, zero_copy: bool
) -> None:
    os.environ["LOCKSTEP_ZERO_COPY"] = str(int(zero_copy))
    on_ranks(ranks, hosts, _compare, ranks, hosts, bars, rounds, span, zero_copy)


def _compare(
    rank: int,
    ranks: int,
    hosts: int,
    bars: dict[int, float],
    rounds: int,
    span: float,
    zero_copy: bool,
) -> None:
    peer_group = gloo()
    for size, bar in bars.items():
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
                    "case": "all_reduce through torch.distributed",
                    "ranks": ranks,
                    "hosts": hosts,
                    "zero_copy": int(zero_copy),
                    "bytes": size,
                    "dtype": "float32",
                    "unit": "us",
                    "ours": ours * 1e6,
                    "peer": peer * 1e6,
                    "peer_name": "gloo",
                    "ratio": peer / ours,
                    "bar": bar,
                }
            )
