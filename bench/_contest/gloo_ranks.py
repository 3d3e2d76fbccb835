"""Gloo's ranks in the contest, through PyTorch: `gloo_ranks.py RANKS [HOST...] SOCKET` forks them.

They obey the same lines as those in C++ (rank.h). HOST is ADDRESS=NAMESPACE; each has equally many
ranks, which enter its network namespace.
"""

import ctypes
import datetime
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Work:
    """One collective on memory that is laid out for it."""

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


def serve(rank: int, ranks: int, path: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    stream = connection.makefile("rw")
    print("rank", rank, file=stream, flush=True)
    prepared, work = "", None
    for line in stream:
        verb, collective, size, *calls = line.split()
        if work is None or prepared != f"{collective} {size}":
            prepared, work = f"{collective} {size}", None  # frees the last one's memory first
            work = WORKS[collective](rank, ranks, int(size) // 4)
        answer = check(work) if verb == "check" else run(work, int(calls[0]))
        print(answer, file=stream, flush=True)


def enter(host: str) -> None:
    """This thread's and its later threads' network is that host's, whose interface is eth0."""
    with open(host.partition("=")[2]) as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"entering {host} failed")
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"


def live(rank: int, ranks: int, hosts: list[str], path: str, meeting_place: str) -> None:
    if hosts:
        enter(hosts[rank * len(hosts) // ranks])
    store = dist.FileStore(meeting_place, ranks)
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
    serve(rank, ranks, path)
    dist.destroy_process_group()


def main() -> int:
    ranks, hosts, path = int(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(ranks):
            if os.fork() == 0:
                live(rank, ranks, hosts, path, f"{folder}/store")
                os._exit(0)
        return max(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(ranks))


if __name__ == "__main__":
    sys.exit(main())
