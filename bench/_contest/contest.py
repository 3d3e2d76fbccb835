"""A whole contest: the contestants, the cases, and a row for each of our paths."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import peers
from .contestant import Contestant, Entry, Failed, Work
from .probe import Probe
from .rounds import Pace, take_turns
from .rows import KIB, MEMORY, MIB, PATHS, PEERS, row

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build")).resolve()

SIZES = [8, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
LATENCY_SIZES = [8, 64, KIB, 4 * KIB]
QUICK_SIZES = [8, 64 * KIB, MIB]
# From this size on no cache holds the buffers, so memory is the limit. An all-gather stores its
# results past the cache earlier, unless its ranks share one
# (src/comm/algorithm/host/host_store_mode.h).
LIMITED = {"all_reduce": 64 * MIB, "reduce_scatter": 64 * MIB, "all_gather": 4 * MIB}

LOAD_MAX = 0.7  # above, other programs use the machine

FULL_PACE = Pace(rounds=9, seconds=0.03)
LATENCY_PACE = Pace(rounds=25, seconds=0.03)
QUICK_PACE = Pace(rounds=2, seconds=0.003)


@dataclass
class Plan:
    ranks: list[int]
    sizes: list[int]
    peers: list[str]
    pace: Pace
    quick: bool
    chosen: bool  # some cases only, named by the arguments

    @property
    def through_torch(self) -> bool:
        """True if PyTorch's view is measured too: a choice is one of contestants' cases."""
        return "gloo" in self.peers and not self.chosen


def read_arguments(about: str | None, sizes: list[int], pace: Pace) -> Plan:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few sizes and rounds")
    parser.add_argument("--ranks", type=ranks_in, help="such as 2,4")
    parser.add_argument("--bytes", type=sizes_in, help="such as 8,64KiB,16MiB")
    parser.add_argument(
        "--peers", type=_peers, default=list(PEERS), help=f"of {', '.join(PEERS)}; or none"
    )
    given = parser.parse_args()
    return Plan(
        ranks=given.ranks or ([2] if given.quick else [2, 4]),
        sizes=given.bytes or [each for each in sizes if not given.quick or each in QUICK_SIZES],
        peers=given.peers,
        pace=QUICK_PACE if given.quick else pace,
        quick=given.quick,
        chosen=bool(given.ranks or given.bytes),
    )


def numbers_in(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError("must be positive")
    return numbers


def ranks_in(text: str) -> list[int]:
    ranks = numbers_in(text)
    if min(ranks) < 2:
        raise argparse.ArgumentTypeError("a group has two ranks at least")
    return ranks


def sizes_in(text: str) -> list[int]:
    units = {"KiB": KIB, "MiB": MIB, "": 1}
    words = [(word.rstrip("KiMB"), word) for word in text.split(",")]
    return [int(digits) * units[word[len(digits) :]] for digits, word in words]


def names_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A type of argparse: some of the names, with commas between them."""

    def names_in(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}")
        return names

    return names_in


def _peers(text: str) -> list[str]:
    return [] if text == "none" else names_of(PEERS)(text)


def hold(bench: str, collectives: list[str], plan: Plan) -> None:
    """Prints a row for each case and path; a contestant that fails or is wrong ends the program."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # contestants and files go then too
    names = peers.available(plan.peers, BUILD, say)
    warn_if_loaded()
    try:
        for ranks in plan.ranks:
            with tempfile.TemporaryDirectory(prefix="lockstep-contest-") as folder:
                _hold(bench, collectives, ranks, plan, names, Path(folder))
    except Failed as failed:
        sys.exit(str(failed))


def _hold(
    bench: str, collectives: list[str], ranks: int, plan: Plan, names: list[str], folder: Path
) -> None:
    entries = [*(_ours(path, ranks) for path in PATHS), *peers.entries(names, ranks, BUILD)]
    with contextlib.ExitStack() as started:

        def start(entry: Entry, count: int) -> Contestant:
            return started.enter_context(Contestant(entry, count, folder))

        alone, memory = start(_ours(MEMORY, 1), 1), start(_ours(MEMORY, ranks), ranks)
        sides = [start(entry, ranks) for entry in entries]
        probe = Probe(alone, memory, ranks)
        probe.look("at the start", say)
        for work in _works(collectives, plan.sizes, ranks):
            turns = [*sides, memory] if work.bytes >= LIMITED[work.collective] else sides
            times = take_turns(turns, work, plan.pace, say)
            for path in filter(times.__contains__, PATHS):
                print(json.dumps(row(bench, work, ranks, path, times)), flush=True)
            if not plan.quick:
                probe.look(f"after {work}", say)


def warn_if_loaded() -> None:
    """Ranks that spin for each other lose a time slice for each message when others compute too."""
    if (load := os.getloadavg()[0]) > LOAD_MAX:
        say(f"the load is {load:.1f}: other programs compute, which slows those most that spin")


def _works(collectives: list[str], sizes: list[int], ranks: int) -> Iterator[Work]:
    """Each rank's share is one number at least, and each share as large as the others."""
    share = 4 * ranks
    for collective in collectives:
        for size in sizes:
            yield Work(
                collective, size if collective == "all_reduce" else -(-size // share) * share
            )


def _ours(path: str, ranks: int) -> Entry:
    command = [str(BUILD / "bin" / "bench_contest"), str(ranks), path]
    return Entry(path, command, communicates=path != MEMORY)


def say(words: str) -> None:
    """Prints to standard error: standard output is for rows."""
    print(words, file=sys.stderr, flush=True)
