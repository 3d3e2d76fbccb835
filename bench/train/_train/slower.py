"""MiCS against ZeRO-3 where the wire is so many times slower than gathers inside a host.

Both are ours, and both give up what they have gathered after forward. That is the setting of the
MiCS paper (Zhang et al., VLDB 2022), whose networks were 12 to 24 times slower than its hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _contest.network import Rate

from .field import ENGINE, Job, contestant, matches
from .race import Row, Runner

MICRO_STEPS = (1, 4, 8)
MODEL = "medium"
# The bar of the best point, and of each.
BEST_BAR, EACH_BAR = 2.8, 1.2


def jobs(slower: int, micro_steps: int, size: str, hosts: int, ranks_a_host: int) -> list[Job]:
    parts = {part.policy: part for part in contestant(ENGINE).PARTS}
    return [
        Job(ENGINE, parts[policy], "lockstep", micro_steps, size, hosts, ranks_a_host, slower)
        for policy in ("mics", "zero3")
    ]


def wanted(slower: Sequence[int], rows: Sequence[str]) -> list[tuple[int, int]]:
    """The wires, and the micro-steps with each."""
    return [
        (times, micro_steps)
        for times in slower
        for micro_steps in MICRO_STEPS
        if any(matches(job, rows) for job in jobs(times, micro_steps, MODEL, 2, 2))
    ]


def wire(gathers: float, times: int) -> Rate:
    """One that leaves to TCP a share of the bits a second that a rank gathers inside its host."""
    bits = gathers / times * 1514 / 1448
    burst = max(64, round(bits / 8 / 1024 / 1000))  # a thousandth of a second
    return Rate(f"{bits:.0f}bit", bits, f"{burst}kb", "40ms")


def row(runners: Sequence[Runner], rate: Rate, gathers: float) -> Row:
    mics, zero3, alone = runners
    job = mics.job
    return {
        "bench": "train",
        "case": "mics over zero3, slower wire",
        "slower": job.slower,
        "micro_steps": job.micro_steps,
        "hosts": job.hosts,
        "ranks": job.ranks,
        "model": job.size,
        "unit": "s",
        "ours": mics.seconds,
        "peer": zero3.seconds,
        "peer_name": "our zero3",
        "ratio": zero3.seconds / mics.seconds,
        "bar": EACH_BAR,
        "compute_s": alone.seconds,
        "wire_gbit": rate.payload / 1e9,
        "gathers_gbit": gathers / 1e9,
    }


def best(made: Sequence[Row]) -> Iterator[Row]:
    """The point where MiCS gains most."""
    if made:
        most = max(made, key=lambda each: float(each["ratio"]))
        yield most | {"case": "mics over zero3 at its best point", "bar": BEST_BAR}
