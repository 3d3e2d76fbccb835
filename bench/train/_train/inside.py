"""How fast the ranks of each host gather a block, all hosts at once.

    python -m _train.inside SIZE RANKS HOST... SOCKET

Each rank answers "gather" with when it began and ended one, in seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from _contest.contestant import Contestant, Failed
from _contest.fork_ranks import fork_ranks, obey

from .field import SIZES

ROUNDS = 15


def rate(gathering: Contestant, size: str, ranks_a_host: int) -> float:
    """Bits a second that a rank gets from its host's other ranks while all hosts gather."""
    seconds = []
    for _ in range(ROUNDS):
        answers = gathering.ask("gather")
        try:
            begins, ends = zip(*(map(float, each.split()) for each in answers), strict=True)
        except ValueError:
            raise Failed(f"gathers inside hosts answer no times: {answers}") from None
        seconds.append(max(ends) - min(begins))
    fastest_half = sorted(seconds)[: (ROUNDS + 1) // 2]
    got = _elements(size, ranks_a_host) * 4 * (ranks_a_host - 1) / ranks_a_host
    return got * 8 / fastest_half[len(fastest_half) // 2]


def _elements(size: str, ranks_a_host: int) -> int:
    """The elements of a block, rounded down to a multiple of the ranks."""
    of_block = SIZES[size].bytes // 4 // SIZES[size].blocks
    return of_block // ranks_a_host * ranks_a_host


class Rank:
    def __init__(self, rank: int, size: str, ranks_a_host: int, hosts: int) -> None:
        groups = [
            dist.new_group(list(range(host * ranks_a_host, (host + 1) * ranks_a_host)))
            for host in range(hosts)
        ]
        self._group = groups[rank // ranks_a_host]
        cpu = torch.device("cpu")
        lent = dist.group.WORLD._get_backend(cpu)  # type: ignore[union-attr]
        elements = _elements(size, ranks_a_host)
        self._whole = lent.allocate_tensor(elements, dtype=torch.float32, device=cpu)
        share = elements // ranks_a_host
        self._part = lent.allocate_tensor(share, dtype=torch.float32, device=cpu)
        self._part.fill_(rank)

    def answer(self, line: str) -> str:
        if line.strip() != "gather":
            raise ValueError(f"told to {line!r}")
        begin = time.monotonic()
        dist.all_gather_into_tensor(self._whole, self._part, group=self._group)
        return f"{begin:.9f} {time.monotonic():.9f}"


def main(words: Sequence[str]) -> int:
    size, ranks, *hosts, socket = words
    torch.set_num_threads(1)
    ranks_a_host = int(ranks) // len(hosts)

    def live(rank: int, meeting_place: str) -> None:
        store = dist.FileStore(meeting_place, int(ranks))
        dist.init_process_group("lockstep", store=store, rank=rank, world_size=int(ranks))
        obey(rank, socket, Rank(rank, size, ranks_a_host, len(hosts)).answer)
        dist.destroy_process_group()

    return fork_ranks(int(ranks), hosts, live)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
