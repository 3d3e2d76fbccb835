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
from .rows import KIB, MIB, PATHS

Row = dict[str, Any]

PEERS = ("gloo", "open_mpi")
# Our algorithm that ignores hosts.
FLAT_RING = "flat_ring"

# A flat ring of four ranks takes a second for 64 MiB on a wire of 1 Gbit/s.
SLOW = 4.0

# From this size on the wire's limit is reported; from this size on the bar applies, because the
# bucket's burst makes shorter calls look faster.
BOUNDED, LONG = MIB, 16 * MIB
# From this size on the bytes that each host sends are counted.
COUNTED = 64 * KIB
# The least share of iperf3's goodput, by the wire's rate.
WIRE_BARS = {"1gbit": 0.98, "10gbit": 0.85}
# Not slower than the fastest peer, except for noise: where the wire is the limit, all are equal.
PEER_BAR = 0.98
LATENCY_BAR, LATENCY_BYTES = 2.0, 16 * KIB  # times as fast as Gloo, up to that size
# With two ranks on each of two hosts a flat ring sends 3/2 of what is needed; with more hosts less.
HIERARCHY_BAR = 1.4

# In its own process namespace: all its processes end with the first, which ends with this one.
SETPRIV = ["setpriv", "--pdeathsig", "KILL", "--"]
DIES_WITH_US = [*SETPRIV, "unshare", "--pid", "--fork", "--kill-child", "--"]

MPIRUN = (
    "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 "
    f"--mca btl tcp,self --mca btl_tcp_if_include {INTERFACE} --mca oob_tcp_if_include {INTERFACE}"
).split()
# mpirun starts this in place of ssh, as AGENT HOST COMMAND...: a shell on that host. Open MPI
# treats hosts with the same name as one, so each has its own name.
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
    def rate(self) -> str:
        return self.network.rate.name if self.network.rate else "none"

    def host_of(self, rank: int) -> int:
        return rank // self.ranks_a_host

    @property
    def places(self) -> list[str]:
        """Each host as an argument of ranks: its address and its namespace."""
        return [f"{host.address}={host.path}" for host in self.network.hosts]


def entry(name: str, layout: Layout, build: Path, folder: Path) -> Entry:
    """A peer, or ours under the name of a path. It ends with this process, however that ends."""
    if name == "gloo":
        command = [*python("_contest.gloo_ranks"), str(layout.ranks), *layout.places]
    elif name == "open_mpi":
        command = _mpirun(layout, build, folder)
    else:
        return ours(name, layout, build, name)
    return Entry(name, [*DIES_WITH_US, *command])


def ours(name: str, layout: Layout, build: Path, path: str, **settings: str) -> Entry:
    """Our ranks, with these variables in their environment."""
    words = [f"{variable}={value}" for variable, value in settings.items()]
    program = str(build / "bin" / "bench_contest")
    command = ["env", *words, program, str(layout.ranks), path, *layout.places]
    return Entry(name, [*DIES_WITH_US, *command])


def flat_ring(layout: Layout, build: Path) -> Entry:
    return ours(FLAT_RING, layout, build, PATHS[0], LOCKSTEP_ALGORITHM="ring")


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
    """A contestant, with the bytes that its hosts send a call."""

    def __init__(self, contestant: Contestant, layout: Layout) -> None:
        self.name = contestant.name
        self._contestant = contestant
        self._layout = layout
        self._sent: list[float] = []
        self._payloads: set[float] = set()

    def check(self, work: Work) -> None:
        self._sent.clear()
        self._payloads.clear()
        self._contestant.check(work)

    def run(self, work: Work, calls: int) -> float:
        first = self._layout.network.hosts[0]
        before = first.sent_bytes()
        seconds = self._contestant.run(work, calls)
        # One call more than is timed, and a barrier, which is little.
        self._sent.append((first.sent_bytes() - before) / (calls + 1))
        self._payloads.update(self._payload(host) for host in range(self._layout.hosts))
        return seconds

    @property
    def sent_bytes(self) -> float:
        """Counted at the first host's interface, with headers."""
        return statistics.median(self._sent)

    @property
    def payloads(self) -> set[float]:
        """The data that any host sent per call in any turn, as the library counts it."""
        return self._payloads

    def _payload(self, host: int) -> float:
        by_rank = enumerate(self._contestant.payloads)
        return sum(sent for rank, sent in by_rank if self._layout.host_of(rank) == host)


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
            Counted(started.enter_context(Contestant(each, layout.ranks, folder)), layout)
            for each in entries
        ]
        before = layout.network.goodput() if max(sizes) >= BOUNDED else None
        for size in sizes:
            work = Work("all_reduce", size)
            times = take_turns(sides, work, pace, say)
            after = layout.network.goodput() if size >= BOUNDED else before
            sent = {side.name: side.sent_bytes for side in sides}
            payloads = {side.name: side.payloads for side in sides}
            goodput = max(before, after) if before and after and size >= BOUNDED else None
            for path in filter(times.__contains__, paths):
                yield from rows(layout, work, path, times, sent, goodput)
                yield from _payload_on_the_wires(layout, work, path, payloads[path])
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
    about = _about(layout, work, path)
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
    least = _least(layout, work)
    if goodput is not None:
        bound = least * 8 / goodput
        made |= {"limit": bound * 1e6, "of_limit": bound / ours, "sent": sent[path] / least}
    yield made
    if "gloo" in peers:
        yield from _against_gloo(layout, work, about, ours, peers["gloo"])
    if FLAT_RING in times:
        ring = {"unit": "us", "ours": ours * 1e6, "peer": times[FLAT_RING] * 1e6}
        ring |= {"peer_name": "flat ring", "ratio": times[FLAT_RING] / ours, "bar": PEER_BAR}
        yield {"bench": "wire", "case": "against the flat ring"} | about | ring
    if goodput is not None:
        yield from _on_the_wire(layout, work, about, least * 8 / ours, goodput)


def _about(layout: Layout, work: Work, path: str) -> Row:
    return {
        "ranks": layout.ranks,
        "hosts": layout.hosts,
        "rate": layout.rate,
        "bytes": work.bytes,
        "path": path,
        "dtype": "float32",
    }


def _least(layout: Layout, work: Work) -> float:
    """The bytes that a host must send: with one rank, and with several that first add up."""
    return 2 * (layout.hosts - 1) / layout.hosts * work.bytes


def _payload_on_the_wires(
    layout: Layout, work: Work, path: str, payloads: set[float]
) -> Iterator[Row]:
    """With several ranks a host each host sends exactly the least, in each call."""
    if layout.ranks_a_host == 1 or work.bytes < COUNTED or not payloads:
        return
    least = _least(layout, work)
    worst = max(payloads, key=lambda sent: abs(sent - least))
    counted = {"unit": "bytes", "ours": worst, "peer": least, "peer_name": "2(H-1)/H of it"}
    made = {"bench": "wire", "case": "payload on each host's wire", **_about(layout, work, path)}
    made |= counted | {"ratio": min(worst, least) / max(worst, least)}
    # For shorter calls the plan with the fewest steps may send more.
    yield made | {"bar": 1.0} if work.bytes >= BOUNDED else made


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
