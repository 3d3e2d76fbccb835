"""Gloo's ranks in the contest, by PyTorch: `python -m _contest.gloo_ranks RANKS [HOST...] SOCKET`.

They obey the same lines as those in C++ (rank.h); forked.py says what a HOST is.
"""

import datetime
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .fork_ranks import fork_ranks, obey


@dataclass
class Work:
    """One collective with its buffers."""

    everything: list[torch.Tensor]
    input: torch.Tensor
    output: torch.Tensor
    expected: Callable[[], torch.Tensor]  # of the output
    call: Callable[[], object]


def values(rank: int, places: int) -> torch.Tensor:
    return (torch.arange(places) % 1021 + 3 * rank + 1).float()


def sums(ranks: int, places: int) -> torch.Tensor:
    return torch.stack([values(rank, places) for rank in range(ranks)]).sum(0)


def all_reduce(rank: int, ranks: int, floats: int) -> Work:
    whole = torch.empty(floats)
    return Work([whole], whole, whole, lambda: sums(ranks, floats), lambda: dist.all_reduce(whole))


def reduce_scatter(rank: int, ranks: int, floats: int) -> Work:
    whole, own = torch.empty(floats), torch.empty(floats // ranks)
    return Work(
        [whole, own],
        whole,
        own,
        lambda: sums(ranks, floats).chunk(ranks)[rank],
        lambda: dist.reduce_scatter_tensor(own, whole),
    )


def all_gather(rank: int, ranks: int, floats: int) -> Work:
    whole = torch.empty(floats)
    own = whole.chunk(ranks)[rank]
    return Work(
        [whole],
        own,
        whole,
        lambda: torch.cat([values(each, floats // ranks) for each in range(ranks)]),
        lambda: dist.all_gather_into_tensor(whole, own),
    )


WORKS = {"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather}


def check(work: Work) -> str:
    for tensor in work.everything:
        tensor.fill_(-1)
    work.input.copy_(values(dist.get_rank(), work.input.numel()))
    work.call()
    wrong = (work.output != work.expected()).nonzero()
    return "right" if not len(wrong) else f"{len(wrong)} elements, first number {wrong[0].item()}"


def run(work: Work, calls: int) -> str:
    for tensor in work.everything:
        tensor.zero_()
    work.call()
    dist.barrier()
    begin = time.monotonic()
    for _ in range(calls):
        work.call()
    return f"{begin:.9f} {time.monotonic():.9f}"


class Rank:
    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._prepared, self._work = "", None

    def answer(self, line: str) -> str:
        verb, collective, size, *calls = line.split()
        if self._work is None or self._prepared != f"{collective} {size}":
            self._prepared, self._work = f"{collective} {size}", None  # frees the last one's memory
            self._work = WORKS[collective](dist.get_rank(), self._ranks, int(size) // 4)
        return check(self._work) if verb == "check" else run(self._work, int(calls[0]))


def main() -> int:
    ranks, hosts, path = int(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]
    torch.set_num_threads(1)

    def live(rank: int, meeting_place: str) -> None:
        store = dist.FileStore(meeting_place, ranks)
        limit = datetime.timedelta(seconds=60)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
        obey(rank, path, Rank(ranks).answer)
        dist.destroy_process_group()

    return fork_ranks(ranks, hosts, live)


if __name__ == "__main__":
    sys.exit(main())
