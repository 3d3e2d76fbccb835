"""The contest between hosts: the same contestants; their ranks live in network namespaces."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .contestant import Contestant, Entry, Work
from .network import INTERFACE, Network
from .peers import program_of, python
from .rounds import Pace, take_turns
from .rows import KIB, MIB

Row = dict[str, Any]

PEERS = ("gloo", "open_mpi")

# From here on it is told what the wire allows; and from here on it is judged, because the bucket's
# burst flatters shorter calls.
BOUNDED, LONG = MIB, 16 * MIB
# The share of iperf3's goodput that we want at least, by the wire's rate.
WIRE_BARS = {"1gbit": 0.98, "10gbit": 0.85}
# Never slower than the fastest peer, but for noise: where the wire is the limit, all are alike.
PEER_BAR = 0.98
LATENCY_BAR, LATENCY_BYTES = 2.0, 16 * KIB  # times as fast as Gloo, up to that size
# With two ranks on each of two hosts a flat ring sends 3/2 of what is needed; with more hosts less.
HIERARCHY_BAR = 1.4

# Processes of its own, of which all end with the first, which ends with us.
SETPRIV = ["setpriv", "--pdeathsig", "KILL", "--"]
DIES_WITH_US = [*SETPRIV, "unshare", "--pid", "--fork", "--kill-child", "--"]

MPIRUN = (
    "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 "
    f"--mca btl tcp,self --mca btl_tcp_if_include {INTERFACE} --mca oob_tcp_if_include {INTERFACE}"
).split()
# What mpirun starts instead of ssh, as AGENT HOST COMMAND...: a shell on that host. Open MPI takes
# hosts of the same name for one, so each has its own.
AGENT = """#!/bin/sh
host=$1
shift
exec nsenter --net="$(dirname "$0")/$host" -- unshare --uts sh -c "hostname wire-$host; $*"
"""


@dataclass(frozen=True)
class Layout:
    network: Network
    ranks_a_host: int

    @property
    def hosts(self) -> int:
        return len(self.network.hosts)

    @property
    def ranks(self) -> int:
        return self.hosts * self.ranks_a_host

    @property
    def places(self) -> list[str]:
        """Each host as ranks are told of it: its address and its namespace."""
        return [f"{host.address}={host.path}" for host in self.network.hosts]


def entry(name: str, layout: Layout, build: Path, folder: Path) -> Entry:
    """A peer, or ours under the name of a path. It ends with us, whatever ends us."""
    if name == "gloo":
        command = [*python("_contest.gloo_ranks"), str(layout.ranks), *layout.places]
    elif name == "open_mpi":
        command = _mpirun(layout, build, folder)
    else:
        command = [str(build / "bin" / "bench_contest"), str(layout.ranks), name, *layout.places]
    return Entry(name, [*DIES_WITH_US, *command])


def _mpirun(layout: Layout, build: Path, folder: Path) -> list[str]:
    agent = folder / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o700)
    for host in layout.network.hosts:
        (folder / host.address).symlink_to(host.path)
    hosts = ",".join(f"{host.address}:{layout.ranks_a_host}" for host in layout.network.hosts)
    words = ["--mca", "plm_rsh_agent", str(agent), "--host", hosts, "-np", str(layout.ranks)]
    first = ["unshare", "--uts", "sh", "-c", 'hostname wire-first; exec "$@"', "sh"]
    return layout.network.hosts[0].within(
        *first, *MPIRUN, *words, str(program_of("open_mpi", build))
    )


class Counted:
    """A contestant, with the bytes that its first host sends a call."""

    def __init__(self, contestant: Contestant, network: Network) -> None:
        self.name = contestant.name
        self._contestant = contestant
        self._host = network.hosts[0]
        self._sent: list[float] = []

    def check(self, work: Work) -> None:
        self._sent.clear()
        self._contestant.check(work)

    def run(self, work: Work, calls: int) -> float:
        before = self._host.sent_bytes()
        seconds = self._contestant.run(work, calls)
        # One call more than is timed, and a barrier, which is little.
        self._sent.append((self._host.sent_bytes() - before) / (calls + 1))
        return seconds

    @property
    def sent_bytes(self) -> float:
        return statistics.median(self._sent)


def race(
    layout: Layout,
    paths: Sequence[str],
    entries: Sequence[Entry],
    sizes: Sequence[int],
    pace: Pace,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[Row]:
    """The rows of all sizes. The wire is measured before the first, between them and at the end."""
    with contextlib.ExitStack() as started:
        sides = [
            Counted(started.enter_context(Contestant(each, layout.ranks, folder)), layout.network)
            for each in entries
        ]
        before = layout.network.goodput() if max(sizes) >= BOUNDED else None
        for size in sizes:
            work = Work("all_reduce", size)
            times = take_turns(sides, work, pace, say)
            after = layout.network.goodput() if size >= BOUNDED else before
            sent = {side.name: side.sent_bytes for side in sides}
            goodput = max(before, after) if before and after and size >= BOUNDED else None
            for path in filter(times.__contains__, paths):
                yield from rows(layout, work, path, times, sent, goodput)
            before = after


def rows(
    layout: Layout,
    work: Work,
    path: str,
    times: dict[str, float],
    sent: dict[str, float],
    goodput: float | None,
) -> Iterator[Row]:
    """Against the fastest peer; against Gloo and iperf3 where a bar is set for that.

    times are seconds of a call, by contestant; goodput bits a second of iperf3.
    """
    ours = times[path]
    about: Row = {
        "ranks": layout.ranks,
        "hosts": layout.hosts,
        "rate": layout.network.rate.name if layout.network.rate else "none",
        "bytes": work.bytes,
        "path": path,
        "dtype": "float32",
    }
    peers = {name: times[name] for name in PEERS if name in times}
    made: Row = {"bench": "wire", "case": work.collective, **about, "unit": "us"}
    made |= {"ours": ours * 1e6}
    if peers:
        fastest = min(peers, key=peers.__getitem__)
        made |= {"peer": peers[fastest] * 1e6, "peer_name": fastest}
        made |= {"ratio": peers[fastest] / ours, "bar": PEER_BAR}
        made |= {name: seconds * 1e6 for name, seconds in peers.items()}
    shared = 2 * (layout.ranks - 1) / layout.ranks * work.bytes * 8 / ours
    made |= {"gbit": work.bytes * 8 / ours / 1e9, "bus_gbit": shared / 1e9}
    # The least that a host must send: with one rank a host, and with several that first add up.
    least = 2 * (layout.hosts - 1) / layout.hosts * work.bytes
    if goodput is not None:
        bound = least * 8 / goodput
        made |= {"limit": bound * 1e6, "of_limit": bound / ours, "sent": sent[path] / least}
    yield made
    if "gloo" in peers:
        yield from _against_gloo(layout, work, about, ours, peers["gloo"])
    if goodput is not None:
        yield from _on_the_wire(layout, work, about, least * 8 / ours, goodput)


def _against_gloo(
    layout: Layout, work: Work, about: Row, ours: float, gloo: float
) -> Iterator[Row]:
    if work.bytes <= LATENCY_BYTES:
        bar = LATENCY_BAR
    elif layout.hosts == 2 and layout.ranks_a_host == 2 and work.bytes >= LONG:
        bar = HIERARCHY_BAR
    else:
        return
    times = {"unit": "us", "ours": ours * 1e6, "peer": gloo * 1e6, "peer_name": "gloo"}
    case = {"bench": "wire", "case": "against gloo"}
    yield case | about | times | {"ratio": gloo / ours, "bar": bar}


def _on_the_wire(
    layout: Layout, work: Work, about: Row, speed: float, goodput: float
) -> Iterator[Row]:
    rate = layout.network.rate
    if rate is None or work.bytes < LONG:
        return
    speeds = {"ours": speed / 1e6, "peer": goodput / 1e6, "peer_name": "iperf3"}
    case = {"bench": "wire", "case": "on the wire"}
    bar = WIRE_BARS[rate.name]
    yield case | about | {"unit": "Mbit/s"} | speeds | {"ratio": speed / goodput, "bar": bar}
