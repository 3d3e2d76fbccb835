"""A script for Horovod: by lockstep.horovod.torch, by Horovod 0.28.1 over Gloo, and by DDP."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _contest.contest import numbers_in
from _contest.contestant import Contestant, Entry, Failed
from _contest.peers import python
from _contest.rounds import turns
from _horovod.build import horovod
from _horovod.cases import CASES
from _ranks import memory_probe

BUILD = Path(__file__).resolve().parents[2] / "build"
OURS, HOROVOD, DDP = "lockstep", "horovod", "ddp"
START_SECONDS, ANSWER_SECONDS = 180.0, 300.0
# Sums in another order.
SAME_RESULT = 1e-4

Row = dict[str, Any]


def say(text: str) -> None:
    print(f"horovod: {text}", file=sys.stderr, flush=True)


@dataclass
class Side:
    """A contestant, with the seconds of a step in each of its turns."""

    contestant: Contestant
    name: str
    calls: int = 1
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)  # of all ranks together

    def run(self, calls: int) -> tuple[float, float]:
        self.contestant.resume()
        answers = self.contestant.ask(f"run {calls}")
        self.contestant.pause()
        try:
            said = [[float(word) for word in each.split()] for each in answers]
            begins, ends, worked = zip(*said, strict=True)
        except ValueError:
            raise Failed(f"{self.name} answers no times: {answers}") from None
        return (max(ends) - min(begins)) / calls, sum(worked) / calls

    def take_turn(self) -> None:
        wall, processor = self.run(self.calls)
        self.wall.append(wall)
        self.processor.append(processor)

    def results(self) -> list[float]:
        self.contestant.resume()
        answers = [float(each) for each in self.contestant.ask("loss")]
        self.contestant.pause()
        return answers


def compare(
    case: str, ranks: int, names: Sequence[str], packages: Path | None, rounds: int, span: float
) -> Iterator[Row]:
    with contextlib.ExitStack() as started:
        folder = Path(
            started.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-horovod-"))
        )
        sides = []
        for name in names:
            # Horovod's package before this folder, in which this benchmark has the same name.
            folders = [packages] if packages and name == HOROVOD else []
            folders += [BUILD / "python", Path(__file__).parent]
            command = [*python("_horovod.ranks", *folders), name, str(ranks), case]
            limits = {"start_seconds": START_SECONDS, "answer_seconds": ANSWER_SECONDS}
            entry = Entry(name, command, **limits)
            say(f"{name}: starting {ranks} ranks")
            side = Side(started.enter_context(Contestant(entry, ranks, folder)), name)
            side.contestant.pause()
            sides.append(side)
        check([(side.name, side.results()) for side in sides])
        for side in sides:
            once, _ = side.run(1)
            once, _ = side.run(max(1, min(20, int(span / 4 / once))))
            side.calls = max(1, min(1000, int(span / once)))
            say(f"{side.name}: {case}, {ranks} ranks: {once * 1e3:.2f} ms a step at first")
        for side in turns(sides, rounds):
            side.take_turn()
        yield from rows(case, ranks, sides)


def check(results: Sequence[tuple[str, list[float]]]) -> None:
    """A contestant with another result is wrong, and its time means nothing."""
    first, expected = results[0]
    for name, result in results[1:]:
        for rank, (each, other) in enumerate(zip(expected, result, strict=True)):
            if not math.isclose(each, other, rel_tol=SAME_RESULT):
                raise Failed(f"rank {rank}: {name} has {other:.7g}, {first} {each:.7g}")


def rows(case: str, ranks: int, sides: Sequence[Side]) -> Iterator[Row]:
    """By the time that passes, and by the processor time of all ranks."""
    by_name = {side.name: side for side in sides}
    ours = by_name[OURS]
    others = [by_name[name] for name in (HOROVOD, DDP) if name in by_name]
    for clock in ("wall", "cpu"):

        def ms(side: Side, clock: str = clock) -> float:
            return 1e3 * statistics.median(side.wall if clock == "wall" else side.processor)

        row: Row = {"bench": "horovod", "case": case, "clock": clock, "ranks": ranks, "unit": "ms"}
        row["ours"] = ms(ours)
        if others:
            peer = others[0]
            row |= {"peer": ms(peer), "peer_name": peer.name, "ratio": ms(peer) / ms(ours)}
            row["bar"] = 1.0
        row |= {f"{side.name}_ms": ms(side) for side in others}
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench horovod", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a small model, once")
    parser.add_argument("--ranks", type=numbers_in, help="such as 2,4")
    parser.add_argument("--cases", help=f"of {','.join(CASES)}")
    parser.add_argument("--peers", help=f"of {HOROVOD},{DDP}; or none")
    parser.add_argument("--rounds", type=int, help="how often each takes its turn")
    given = parser.parse_args()
    cases = given.cases.split(",") if given.cases else ["0.2M"] if given.quick else list(CASES)
    peers = [] if given.peers == "none" else (given.peers or f"{HOROVOD},{DDP}").split(",")
    if unknown := {*cases} - {*CASES} | {*peers} - {HOROVOD, DDP}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    rounds = given.rounds or (2 if given.quick else 9)
    span = 0.05 if given.quick else 0.4
    packages = horovod(BUILD / "bench" / "horovod-packages", say) if HOROVOD in peers else None
    peers = [name for name in peers if packages or name != HOROVOD]
    memory_probe("before")
    try:
        for ranks in given.ranks or ([2] if given.quick else [2, 4]):
            for case in cases:
                # DDP has no call for tensors that are no gradients.
                names = [OURS, *(name for name in peers if name != DDP or not CASES[case].tensors)]
                for row in compare(case, ranks, names, packages, rounds, span):
                    print(json.dumps(row), flush=True)
    except Failed as failed:
        sys.exit(str(failed))
    memory_probe("after")


if __name__ == "__main__":
    main()
