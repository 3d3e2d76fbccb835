"""A replacement gets the state of a dead rank from a replica: its share of the network rate.

Hosts with shaped wires, as in wire.py, train with one replica on each: `ddp` with one rank a host,
`mics` with two. One rank of the last host holds nothing, and gets parameters and AdamW's moments
from a rank that holds the same (src/train/recovery/restore_replacements.h). Time is until all ranks
know of it.

    ./dev bench refill [--quick] [--hosts 2,4] [--ranks-per-host 1,2] [--rate 1gbit] [--mib 32]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from _contest import peers
from _contest.between_hosts import SETPRIV
from _contest.closeable import Closeable
from _contest.contest import BUILD, numbers_in, say, warn_if_loaded
from _contest.contestant import Failed
from _contest.network import RATES, Host, Network, Unavailable

PROGRAM = str(BUILD / "bin" / "bench_refill")
# The ratio to the goodput, with any number of replicas: the others take no part.
BAR = 0.9
ANSWER_SECONDS = 120.0


class RendezvousProcess(Closeable):
    """The rendezvous, on a host."""

    def __init__(self, host: Host, secret_file: str) -> None:
        self._process = subprocess.Popen(
            [*SETPRIV, *host.within(PROGRAM, "serve", host.address)],
            env=os.environ | {"LOCKSTEP_SECRET_FILE": secret_file},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        reply = self._process.stdout.readline().split()
        if len(reply) != 2:
            raise Failed("the rendezvous did not start")
        self.address = f"{host.address}:{reply[1]}"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def fills(network: Network, ranks_a_host: int, mib: int, rounds: int) -> list[tuple[int, float]]:
    """The bytes that the replacement got in each round, and the seconds."""
    policy = f"mics:{ranks_a_host}" if ranks_a_host > 1 else "ddp"
    size = len(network.hosts) * ranks_a_host
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile("w"))  # which only we can read
        file.write(secrets.token_hex(32))
        file.flush()
        place = stack.enter_context(RendezvousProcess(network.hosts[0], file.name))

        def start(rank: int) -> subprocess.Popen[str]:
            number = rank // ranks_a_host
            host = network.hosts[number]
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCKSTEP_RENDEZVOUS": place.address,
                "LOCKSTEP_SECRET_FILE": file.name,
                "LOCKSTEP_HOST_ID": str(number),
                "LOCKSTEP_ADDRESS": host.address,
                "LOCKSTEP_LOG": "error",
            }
            return subprocess.Popen(
                [*SETPRIV, *host.within(PROGRAM, "rank", policy, str(mib), str(rounds))],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        said = _answers([start(rank) for rank in range(size)])
    lines = [line.split() for line in said[0].splitlines()]
    return [(int(line[1]), float(line[2])) for line in lines if line[0] == "filled"]


def _answers(ranks: list[subprocess.Popen[str]]) -> list[str]:
    try:
        said = [rank.communicate(timeout=ANSWER_SECONDS)[0] for rank in ranks]
    except subprocess.TimeoutExpired:
        raise Failed(f"a rank was silent for {ANSWER_SECONDS:.0f} s") from None
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        raise Failed("; ".join(words.strip() for words in said if words.strip()))
    return said


def row(network: Network, ranks_a_host: int, given: argparse.Namespace) -> dict[str, Any]:
    before = network.goodput()
    filled = fills(network, ranks_a_host, given.mib, given.rounds)
    goodput = max(before, network.goodput())
    seconds = statistics.median(took for _, took in filled)
    got = filled[0][0]
    return {
        "bench": "refill",
        "case": "a replacement's state",
        "replicas": len(network.hosts),
        "ranks_a_host": ranks_a_host,
        "rate": given.rate,
        "bytes": got,
        "unit": "Gbit/s",
        "ours": got * 8 / seconds / 1e9,
        "peer": goodput / 1e9,
        "peer_name": "iperf3",
        "ratio": got * 8 / seconds / goodput,
        "bar": BAR,
        "seconds": seconds,
    }


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: two hosts, 4 MiB")
    parser.add_argument("--hosts", type=numbers_in, default=[2, 4], help="such as 2,4")
    parser.add_argument("--ranks-per-host", type=numbers_in, default=[1, 2], help="such as 1,2")
    parser.add_argument("--rate", choices=RATES, default="1gbit")
    parser.add_argument("--mib", type=int, default=32, help="of parameters")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if min(given.hosts) < 2:
        parser.error("--hosts: 2 at least")
    if min(given.mib, given.rounds) < 1:
        parser.error("--mib, --rounds: 1 at least")
    if given.quick:
        given.hosts, given.mib, given.rounds = [2], 4, 2
    return given


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and ranks go then too
    given = read_arguments()
    try:
        if shutil.which("iperf3") is None:
            peers.install(say)
        warn_if_loaded()
        for hosts in given.hosts:
            with Network(hosts, RATES[given.rate]) as network:
                for ranks_a_host in given.ranks_per_host:
                    print(json.dumps(row(network, ranks_a_host, given)), flush=True)
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
