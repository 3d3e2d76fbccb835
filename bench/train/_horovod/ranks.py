"""A contestant's ranks: `python -m _horovod.ranks NAME RANKS CASE SOCKET`.

NAME is lockstep (lockstep.horovod.torch), horovod (Horovod itself over Gloo) or ddp (PyTorch's DDP
over our backend). Each rank answers "loss" with its loss after three steps, and "run N" with when N
steps began and ended, in seconds of CLOCK_MONOTONIC, and the processor time of all its threads.
"""

from __future__ import annotations

import datetime
import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from _contest.fork_ranks import fork_ranks, obey
from _trainer import Trainer, make_model
from torch.nn.parallel import DistributedDataParallel

from .cases import CASES, Case

# A contestant that is not at its turn is stopped, which must not look like a lost peer.
LIMIT = datetime.timedelta(seconds=600)
FIRST_STEPS = 3


class Steps:
    """Steps of a model, by DDP or by Horovod's optimizer."""

    def __init__(self, rank: int, width: int, hvd: Any) -> None:
        model = make_model(width)
        torch.manual_seed(rank)
        self._trainer = Trainer(DistributedDataParallel(model) if hvd is None else model)
        if hvd is not None:
            self._trainer.optimizer = hvd.DistributedOptimizer(
                self._trainer.optimizer, model.named_parameters()
            )

    def run(self) -> None:
        self._trainer.step()

    def result(self) -> float:
        return self._trainer.loss()


class SmallTensors:
    """Many named tensors, each submitted alone, and then waited for."""

    def __init__(self, rank: int, count: int, floats: int, hvd: Any) -> None:
        self._hvd = hvd
        self._tensors = [torch.full((floats,), float(rank + each)) for each in range(count)]

    def run(self) -> None:
        handles = [
            self._hvd.allreduce_async_(tensor, name=f"small.{number}")
            for number, tensor in enumerate(self._tensors)
        ]
        for handle in handles:
            self._hvd.synchronize(handle)

    def result(self) -> float:
        return float(sum(tensor.sum().item() for tensor in self._tensors))


class Rank:
    def __init__(self, rank: int, case: Case, hvd: Any) -> None:
        if case.tensors:
            self._work: Any = SmallTensors(rank, case.tensors, case.floats, hvd)
        else:
            self._work = Steps(rank, case.width, hvd)
        self._meet: Callable[[], object] = dist.barrier if hvd is None else hvd.barrier

    def answer(self, line: str) -> str:
        verb, *count = line.split()
        if verb == "loss":
            for _ in range(FIRST_STEPS):
                self._work.run()
            return f"{self._work.result():.9g}"
        self._work.run()
        self._meet()
        begin, worked = time.monotonic(), time.process_time()
        for _ in range(int(count[0])):
            self._work.run()
        return f"{begin:.9f} {time.monotonic():.9f} {time.process_time() - worked:.9f}"


def connect(name: str, rank: int, ranks: int, meeting_place: str, port: int) -> Any:
    """The module `horovod.torch` of the contestant; none for DDP."""
    torch.set_num_threads(1)
    if name == "horovod":
        os.environ.update(environment_of(rank, ranks, port))
        hvd = importlib.import_module("horovod.torch")
        hvd.init()
        return hvd
    importlib.import_module("lockstep.backend").register()
    store = dist.FileStore(meeting_place, ranks)
    dist.init_process_group("lockstep", store=store, rank=rank, world_size=ranks, timeout=LIMIT)
    if name == "ddp":
        return None
    hvd = importlib.import_module("lockstep.horovod.torch")
    hvd.init()
    return hvd


def environment_of(rank: int, ranks: int, port: int) -> dict[str, str]:
    """As `horovodrun --gloo` sets it for ranks of one host."""
    return {
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(ranks),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(ranks),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(int(LIMIT.total_seconds())),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def rendezvous_port(ranks: int) -> int:
    """The port of a server at which Horovod's ranks meet, in a thread of this process."""
    hosts = importlib.import_module("horovod.runner.common.util.hosts")
    server = importlib.import_module("horovod.runner.http.http_server").RendezvousServer()
    port: int = server.start()
    server.init(hosts.get_host_assignments(hosts.parse_hosts(f"localhost:{ranks}"), ranks))
    return port


def main() -> int:
    name, ranks, case, path = sys.argv[1], int(sys.argv[2]), CASES[sys.argv[3]], sys.argv[4]
    port = rendezvous_port(ranks) if name == "horovod" else 0

    def live(rank: int, meeting_place: str) -> None:
        hvd = connect(name, rank, ranks, meeting_place, port)
        obey(rank, path, Rank(rank, case, hvd).answer)
        # Ends without a farewell: peers that are stopped or gone could delay one for minutes.
        sys.stdout.flush()
        os._exit(0)

    return fork_ranks(ranks, [], live)


if __name__ == "__main__":
    sys.exit(main())
