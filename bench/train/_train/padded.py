"""Measures visible communication where computing can cover it, and the memory that it takes.

Blocks are padded: each sleeps in backward, for half as long again as its share of the gradients is
on the wire, and in forward for half of that. So there is enough to hide behind, and a processor to
communicate with, as beside a GPU that computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .field import ENGINE, ROWS, SIZES, Job, contestant, matches
from .race import Row, Runner, least_bytes

POLICIES = ("mics", "ddp")
COVER = 1.5  # a block's backward, of its share of the wire's time
# The visible part that is allowed, in units' shares of the wire's time: nothing hides the last
# unit.
UNITS_SHOWN = 1.25
# Where parameters are divided: units that are gathered at once, and whole gradients of units.
GATHERED, REDUCED = 3, 2


def jobs(
    size: str, hosts: int, ranks_a_host: int, payload: float, rows: Sequence[str]
) -> list[Job]:
    """Each job is raced alone. payload: bits a second."""
    parts = {part.policy: part for part in contestant(ENGINE).PARTS}
    made = []
    for policy in POLICIES:
        plain = Job(ENGINE, parts[policy], "lockstep", 1, size, hosts, ranks_a_host)
        pad = COVER * least_bytes(plain) * 8 / payload / SIZES[size].blocks
        made.append(Job(ENGINE, parts[policy], "lockstep", 1, size, hosts, ranks_a_host, pad=pad))
    return [job for job in made if matches(job, rows)]


def rows(engine: Runner, alone: Runner, payload: float) -> Iterator[Row]:
    job, size = engine.job, SIZES[engine.job.size]
    about = {
        "bench": "train",
        "policy": job.policy,
        "micro_steps": job.micro_steps,
        "hosts": job.hosts,
        "ranks": job.ranks,
        "model": job.size,
        "bar": 1.0,
    }
    wire = least_bytes(job) * 8 / payload
    shown, allowed = engine.seconds - alone.seconds, UNITS_SHOWN / size.blocks * wire
    yield about | {
        "case": "communication that shows, computing padded",
        "unit": "s",
        "ours": shown,
        "peer": allowed,
        "peer_name": f"{UNITS_SHOWN} of {size.blocks} units' time on the wire",
        "ratio": allowed / max(shown, 1e-9),
        "step_s": engine.seconds,
        "compute_s": alone.seconds,
        "wire_bound_s": wire,
        "pad_s": job.pad,
    }
    used, least = engine.memory, formula(job)
    yield about | {
        "case": "memory",
        "unit": "MB",
        "ours": used / 1e6,
        "peer": least / 1e6,
        "peer_name": "formula and one unit",
        "ratio": least / used,
    }


def formula(job: Job) -> int:
    """Bytes a rank: parameters, gradients, units in flight (docs/design/gradients.md) and one more,
    and the inputs of each layer, which backward needs."""
    size = SIZES[job.size]
    under_way = GATHERED + REDUCED if job.shard_ranks > 1 else 0
    units = (under_way + 1) * size.bytes // size.blocks
    inputs = 4 * ROWS * size.blocks * (size.width + 2 * size.inner)
    return 2 * size.bytes // job.shard_ranks + units + inputs
