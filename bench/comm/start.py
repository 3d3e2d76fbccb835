"""The start of a group in new processes: init_process_group and the first all-reduce, and Gloo's.

The ranks have imported torch and have met when the time begins. The time ends when the last rank
has its result. Ours and Gloo's ranks take turns; the medians of the rounds count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

BACKENDS = ["lockstep", "gloo"]


@dataclass
class Start:
    """One start of a group, in milliseconds."""

    wall: float  # until the last rank has its result
    processor: float  # of a rank, with its kernel time; the mean of all


def rank_main(backend: str, port: int, rank: int, ranks: int, group: str) -> None:
    """Prints when this rank began, when it ended, and its processor time."""
    torch.set_num_threads(1)
    store = dist.PrefixStore(group, dist.TCPStore("127.0.0.1", port, is_master=False))
    store.set(f"here/{rank}", "")
    store.wait([f"here/{other}" for other in range(ranks)])
    used, begun = time.process_time(), time.monotonic()
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    tensor = torch.ones(16)
    dist.all_reduce(tensor)
    ended, used = time.monotonic(), time.process_time() - used
    assert tensor[0] == ranks
    print(json.dumps([begun, ended, used]))
    dist.barrier()
    dist.destroy_process_group()


def start(backend: str, port: int, ranks: int, group: str) -> Start:
    command = [sys.executable, __file__, "--rank-of", f"{backend} {port}", "--group", group]
    environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ}
    processes = [
        subprocess.Popen(
            [*command, "--ranks", str(ranks), "--rank", str(rank)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    printed = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"a rank over {backend} failed; its output above says why")
    begun, ended, used = zip(*map(json.loads, printed), strict=True)
    return Start(1e3 * (max(ended) - min(begun)), 1e3 * statistics.mean(used))


def row(case: str, ranks: int, ours: list[float], gloo: list[float], bar: float) -> None:
    mine, peer = statistics.median(ours), statistics.median(gloo)
    print(
        json.dumps(
            {
                "bench": "start",
                "case": case,
                "ranks": ranks,
                "unit": "ms",
                "ours": mine,
                "peer": peer,
                "peer_name": "gloo",
                "ratio": peer / mine,
                "bar": bar,
                "least": min(ours),
                "peer_least": min(gloo),
            }
        )
    )


def compare(port: int, ranks: int, rounds: int) -> None:
    starts: dict[str, list[Start]] = {backend: [] for backend in BACKENDS}
    for number in range(rounds):
        for backend in BACKENDS if number % 2 else reversed(BACKENDS):
            group = f"{backend}/{ranks}/{number}"
            starts[backend].append(start(backend, port, ranks, group))
    ours, gloo = starts["lockstep"], starts["gloo"]
    walls = [each.wall for each in ours], [each.wall for each in gloo]
    row("init_process_group and the first all_reduce", ranks, *walls, bar=1.0)
    used = [each.processor for each in ours], [each.processor for each in gloo]
    row("processor time of a rank in that time", ranks, *used, bar=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks, such as 2,4")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    for name in ("--rank-of", "--group"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank_of:
        backend, port = chosen.rank_of.split()
        rank_main(backend, int(port), chosen.rank, int(chosen.ranks), chosen.group)
        return
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for ranks in map(int, chosen.ranks.split(",")):
        compare(server.port, ranks, 3 if chosen.quick else chosen.rounds)


if __name__ == "__main__":
    main()
