"""From the times of a case to its rows: one for each way in which Lockstep communicates."""

from __future__ import annotations

from typing import Any

from .contestant import Work

KIB, MIB = 1 << 10, 1 << 20
PATHS = ("zero-copy", "staged")
PEERS = ("open_mpi", "mpich", "gloo")
MEMORY = "memory"  # the contestant that only moves what must be moved


def bar(path: str, ranks: int, size: int) -> float:
    """The bar: how many times as fast as the fastest peer we should be."""
    if size <= 4 * KIB:
        return 1.0
    if path == "staged":
        return 2.0 if ranks >= 4 and size >= 4 * MIB else 1.0
    if size >= 4 * MIB:
        return 4.0
    return 2.0 if size >= 64 * KIB else 1.0


def row(bench: str, work: Work, ranks: int, path: str, times: dict[str, float]) -> dict[str, Any]:
    """times are seconds of a call, by contestant, without those that were not measured."""
    ours = times[path]
    made: dict[str, Any] = {
        "bench": bench,
        "case": work.collective,
        "ranks": ranks,
        "hosts": 1,
        "bytes": work.bytes,
        "path": path,
        "dtype": "float32",
        "unit": "us",
        "ours": ours * 1e6,
        "bar": bar(path, ranks, work.bytes),
        "gbit": work.bytes * 8 / ours / 1e9,
    }
    if peers := {name: times[name] for name in PEERS if name in times}:
        fastest = min(peers, key=peers.__getitem__)
        made |= {"peer": peers[fastest] * 1e6, "peer_name": fastest}
        made |= {"ratio": peers[fastest] / ours}
        made |= {name: seconds * 1e6 for name, seconds in peers.items()}
    if MEMORY in times:
        made |= {"limit": times[MEMORY] * 1e6, "of_limit": times[MEMORY] / ours}
    return made
