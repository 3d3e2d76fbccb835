"""Parameter servers against all-reduce: four workers of which one is slow, and the bytes of a step.

Four workers train a small model; one takes three times longer for a share of a batch. A share's
computing on a device is emulated: the rank waits for --compute-ms, three times that if it is slow,
so that four workers on two cores do not compete. The rows compare `ps:2,staleness=4` and `ps:2,
async` with `ddp` over the same ranks: samples a second, and the time until the mean loss of the
last steps is that of `ddp` after 80 % of its steps. Both train by the same batches and rates.

The last row counts the bytes of the loopback interface in a network namespace of its own (needs
root), where each rank is a host: with W equal workers and parameters of M bytes a step is W M to
the servers and W M back. The count is the difference of a longer and a shorter run.

    ./dev bench parameter_server [--quick] [--steps N] [--compute-ms N]
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import lockstep
from lockstep._compiled import compiled

WORKERS, SERVERS = 4, 2
SLOW, TIMES_SLOWER = 3, 3
SHARE = 16  # samples that a worker computes at once
WINDOW = 6  # steps of a mean loss
RUN_MAX = 300.0  # seconds that one training may take
SAMPLES_BAR, TIME_BAR = 1.8, 1 / 0.8
BYTES_BAR = 0.98  # headers are the rest


@dataclass(frozen=True)
class Case:
    policy: str
    steps: int
    compute: float  # seconds of a share
    width: int
    slow: bool = True
    hosts: bool = False  # each rank is one, so that they exchange through the network

    @property
    def ranks(self) -> int:
        return WORKERS + (SERVERS if self.policy.startswith("ps:") else 0)


def net(width: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(16, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4)
    )


def batch(samples: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and what a fixed function makes of them."""
    index = torch.tensor(samples, dtype=torch.float32).unsqueeze(1)
    x = torch.sin(index * torch.arange(1, 17) * 0.37)
    return x, torch.stack(
        [x[:, :4].sum(1), x[:, 4:8].prod(1), x[:, 8:].mean(1), x[:, 0] * x[:, 1]], 1
    )


def train(case: Case) -> None:
    """A rank: prints the moment, the step and the loss of each share."""
    torch.set_num_threads(1)
    model = lockstep.shard(net(case.width), case.policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    sampler = lockstep.Sampler(4096, SHARE * WORKERS, seed=5)
    training = lockstep.Training(model, optimizer, sampler)
    slow = case.slow and int(os.environ["RANK"]) == SLOW
    for step in training.steps(case.steps):
        with step:
            for samples, weight in step:
                x, y = batch(samples)
                loss = nn.functional.mse_loss(model(x), y)
                time.sleep(case.compute * (TIMES_SLOWER if slow else 1))
                (loss * weight).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(json.dumps([time.monotonic(), step.number, loss.item()]), flush=True)


Told = list[tuple[float, int, float]]


def run(case: Case) -> Told:
    """Starts the ranks; the shares of all, by their moments."""
    secret = secrets.token_hex(32)
    place = compiled().RendezvousServer("127.0.0.1", secret)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(secret)
        file.flush()
        environment = os.environ | {
            "LOCKSTEP_RENDEZVOUS": f"127.0.0.1:{place.port}",
            "LOCKSTEP_SECRET_FILE": file.name,
            "LOCKSTEP_ADDRESS": "127.0.0.1",
            "LOCKSTEP_LOG": "error",
            "WORLD_SIZE": str(case.ranks),
        }
        arguments = [sys.executable, __file__, "--rank", json.dumps(case.__dict__)]
        ranks = [
            subprocess.Popen(
                arguments,
                env=environment
                | {"RANK": str(rank), "LOCKSTEP_HOST_ID": f"host-{rank if case.hosts else 0}"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(case.ranks)
        ]
        try:
            told = [each.communicate(timeout=RUN_MAX)[0] for each in ranks]
        finally:
            for each in ranks:
                each.kill()
                each.wait()
    if any(each.returncode != 0 for each in ranks):
        sys.exit("a rank failed; its output above says why")
    return sorted(tuple(json.loads(line)) for text in told for line in text.splitlines())


def samples_a_second(told: Told) -> float:
    """Without the first tenth, in which the ranks start."""
    later = told[len(told) // 10 :]
    return SHARE * (len(later) - 1) / (later[-1][0] - later[0][0])


def mean_losses(told: Told) -> list[tuple[float, float]]:
    """Seconds from the first share, and the mean loss of the last WINDOW steps' shares."""
    count = WINDOW * WORKERS
    return [
        (told[end - 1][0] - told[0][0], sum(loss for _, _, loss in told[end - count : end]) / count)
        for end in range(count, len(told) + 1)
    ]


def time_to(told: Told, loss: float) -> float | None:
    return next((moment for moment, mean in mean_losses(told) if mean <= loss), None)


def show(**reading: Any) -> None:
    print(json.dumps({"bench": "parameter_server"} | reading), flush=True)


def compare(steps: int, compute: float, width: int) -> None:
    peer = run(Case("ddp", steps, compute, width))
    by_80 = mean_losses([each for each in peer if each[1] <= steps * 0.8])
    goal, peer_time = by_80[-1][1], time_to(peer, by_80[-1][1])
    for policy in ("ps:2,staleness=4", "ps:2,async"):
        ours = run(Case(policy, steps, compute, width))
        shared = {"policy": policy, "workers": WORKERS, "peer_name": "ddp"}
        pair = samples_a_second(ours), samples_a_second(peer)
        show(
            case="samples, one worker 3x slower",
            unit="samples/s",
            ours=pair[0],
            peer=pair[1],
            ratio=pair[0] / pair[1],
            bar=SAMPLES_BAR,
            **shared,
        )
        our_time = time_to(ours, goal)
        if our_time is None:
            print(f"{policy} did not reach the loss {goal:.4f}", file=sys.stderr)
            continue
        assert peer_time is not None
        show(
            case="time to the same loss, one worker 3x slower",
            unit="s",
            ours=our_time,
            peer=peer_time,
            ratio=peer_time / our_time,
            bar=TIME_BAR,
            loss=goal,
            **shared,
        )


def loopback_bytes() -> int:
    """The bytes that lo has sent in this network namespace; /sys may show another one."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    counts = next(line.split(":")[1].split() for line in lines if line.strip().startswith("lo:"))
    return int(counts[8])


def count_bytes(short: int, long: int, width: int) -> None:
    """In a network namespace, where lo carries nothing else."""
    counts = []
    for steps in (short, long):
        before = loopback_bytes()
        run(Case("ps:2,staleness=1", steps, 0.01, width, slow=False, hosts=True))
        counts.append(loopback_bytes() - before)
    sent = (counts[1] - counts[0]) / (long - short)
    parameters = 4 * sum(each.numel() for each in net(width).parameters())
    formula = 2.0 * WORKERS * parameters
    show(
        case="bytes of a step, equal workers",
        unit="MB",
        ours=sent / 1e6,
        peer=formula / 1e6,
        peer_name="2 W M",
        ratio=formula / sent,
        bar=BYTES_BAR,
        workers=WORKERS,
        servers=SERVERS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few steps")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--compute-ms", type=float, default=60)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        train(Case(**json.loads(given.rank)))
        return
    if given.bytes:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        count_bytes(4, 8 if given.quick else 24, 512 if given.quick else 1024)
        return
    steps = 40 if given.quick else given.steps
    compare(steps, given.compute_ms / 1e3, 64)
    quick = ["--quick"] if given.quick else []
    again = ["unshare", "--net", sys.executable, __file__, "--bytes", *quick]
    if subprocess.run(again, check=False).returncode != 0:
        print("the bytes were not counted: a network namespace needs root", file=sys.stderr)


if __name__ == "__main__":
    main()
