"""A step of training between hosts with shaped wires: our engine, DDP, FSDP2 and DeepSpeed.

The hosts are network namespaces of this machine (_contest/network.py), so it needs root. The
contestants of one policy take turns; one with another loss than the others ends the program.
Then our MiCS and our ZeRO-3 take turns on wires 12 and 24 times slower than gathers inside a host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from _contest.between_hosts import SETPRIV
from _contest.contest import BUILD, numbers_in, say, warn_if_loaded
from _contest.contestant import Contestant, Entry, Failed
from _contest.network import RATES, Network, Unavailable
from _contest.packages import install
from _contest.peers import python
from _train import inside, padded, slower
from _train.field import POLICIES, SIZES, Job, contestants, jobs
from _train.race import (
    Row,
    Runner,
    against_the_bound,
    between_policies,
    entry,
    groups,
    race,
    rows,
    together,
)

ROUNDS = {1: 3}
ROUNDS_OF_MORE = 2  # steps of several micro-steps are long
# All but DeepSpeed's several micro-steps, which take longest and have no bar.
ROWS = "*,-*/deepspeed_zero/*/[!1]*"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a tiny model, 2 hosts")
    parser.add_argument("--small", action="store_true", help="a model of 2.1 M parameters")
    parser.add_argument("--hosts", type=numbers_in, help="such as 2,4")
    parser.add_argument("--ranks-per-host", type=int, default=2)
    parser.add_argument("--rate", choices=[*RATES, "none"], default="1gbit")
    parser.add_argument("--micro-steps", type=numbers_in, help="such as 1,4")
    parser.add_argument("--rounds", type=int, help="steps of each that count")
    parser.add_argument(
        "--slower",
        type=numbers_in,
        help="wires so many times slower than gathers inside a host, for our own policies",
    )
    parser.add_argument(
        "--rows",
        default=ROWS,
        help="POLICY/CONTESTANT/BACKEND/MICRO_STEPS, by * and several: 'ddp/*,*/fsdp2/*/1', and "
        "for slower wires .../24x; - leaves out: '*,-*/gloo/*'; "
        f"policies are {', '.join(POLICIES)}, contestants {', '.join(contestants())}",
    )
    given = parser.parse_args()
    given.hosts = given.hosts or ([2] if given.quick else [4])
    given.micro_steps = given.micro_steps or ([1] if given.quick else [1, 4])
    given.rows = given.rows.split(",")
    given.slower = given.slower or ([] if given.quick else [12, 24])
    given.size = "tiny" if given.quick else "small" if given.small else "large"
    if min(given.hosts) < 2 or max(given.hosts) > 200:
        parser.error("--hosts: 2 at least, 200 at most")
    return given


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and contestants go then too
    given = read_arguments()
    sys.path.insert(0, str(BUILD / "python"))  # for contestants that import lockstep
    try:
        warn_if_loaded()
        parameters = SIZES[given.size].bytes // 4
        say(f"{parameters / 1e6:.1f} M parameters, {given.ranks_per_host} ranks a host")
        held: list[Row] = []
        others: list[Row] = []
        for hosts in given.hosts:
            with Network(hosts, RATES.get(given.rate)) as network:
                for micro_steps in given.micro_steps:
                    for policy in POLICIES:
                        made = hold(network, policy, micro_steps, given)
                        tell([*made, *against_the_bound(made)])
                        held += made
                if network.rate and not given.quick:
                    others += hold_padded(network, network.rate.payload, given)
        tell(between_policies(held))
        others += (on_slower := list(hold_slower(given)))
        tell(slower.best(on_slower))
        if not held + others:
            raise Failed(f"no row is called {' or '.join(given.rows)}: try 'ddp/*'")
    except (Failed, Unavailable) as failed:
        sys.exit(str(failed))


def hold(network: Network, policy: str, micro_steps: int, given: argparse.Namespace) -> list[Row]:
    chosen = jobs(
        policy, micro_steps, given.size, len(network.hosts), given.ranks_per_host, given.rows
    )
    packages = peers_packages() if any(job.part.packages for job in chosen) else None
    chosen = [job for job in chosen if packages or not job.part.packages]
    if not chosen:
        return []
    rounds = given.rounds or ROUNDS.get(micro_steps, ROUNDS_OF_MORE)
    held = groups(chosen, memory_available())
    runners = together([run(group, rounds, network, packages) for group in held])
    return list(rows(runners, network.rate.payload if network.rate else None))


def peers_packages() -> Path | None:
    # All are named there: what they ask for beyond that would be another torch. Packages that come
    # as sources are built in the environment that runs this, which has what that needs.
    return install(
        Path(__file__).with_name("train-requirements.txt"),
        BUILD / "bench" / "train-packages",
        say,
        options=("--no-deps", "--no-build-isolation", "--use-pep517"),
        environment={"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0"},
    )


def memory_available() -> int:
    """Bytes that can be had without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def run(
    chosen: Sequence[Job], rounds: int, network: Network, packages: Path | None = None
) -> list[Runner]:
    with contextlib.ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-train-")))

        def start(job: Job) -> Contestant:
            how = entry(job, network, BUILD, packages)
            return started.enter_context(Contestant(how, job.ranks, folder))

        return race(chosen, rounds, network, start, say)


def hold_padded(network: Network, payload: float, given: argparse.Namespace) -> list[Row]:
    """Our engine where computing can cover the wire, policy by policy."""
    size = (given.size, len(network.hosts), given.ranks_per_host)
    made: list[Row] = []
    for job in padded.jobs(*size, payload, given.rows):
        engine, alone = run([job], given.rounds or ROUNDS_OF_MORE, network)
        made += padded.rows(engine, alone, payload)
    tell(made)
    return made


def hold_slower(given: argparse.Namespace) -> Iterator[Row]:
    """Our two policies on wires that are set by what gathers inside a host are measured to be."""
    points = slower.wanted(given.slower, given.rows)
    if not points:
        return
    hosts, ranks_a_host = given.hosts[-1], given.ranks_per_host
    with Network(hosts, None) as network:
        gathers = measure_gathers(network, ranks_a_host)
    say(f"a rank gathers {gathers / 1e9:.1f} Gbit/s inside its host")
    for times in dict.fromkeys(times for times, _ in points):
        rate = slower.wire(gathers, times)
        with Network(hosts, rate) as network:
            for micro_steps in (each for one, each in points if one == times):
                row = slower.row(
                    run(
                        slower.jobs(times, micro_steps, slower.MODEL, hosts, ranks_a_host),
                        given.rounds or ROUNDS_OF_MORE,
                        network,
                    ),
                    rate,
                    gathers,
                )
                tell([row])
                yield row


def measure_gathers(network: Network, ranks_a_host: int) -> float:
    ranks = ranks_a_host * len(network.hosts)
    places = [f"{host.address}={host.path}" for host in network.hosts]
    module = python("_train.inside", BUILD / "python")
    words = [*SETPRIV, *module, slower.MODEL, str(ranks), *places]
    with (
        tempfile.TemporaryDirectory(prefix="lockstep-train-") as folder,
        Contestant(Entry("inside", words), ranks, Path(folder)) as gathering,
    ):
        return inside.rate(gathering, slower.MODEL, ranks_a_host)


def tell(made: Iterable[Row]) -> None:
    for row in made:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
