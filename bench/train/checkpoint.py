"""Saving a training: how long it delays the ranks and the steps, and when all is durable.

Ranks of this host train one model, all of it divided among them, and save parameters and AdamW's
moments. Our checkpoints, PyTorch's asynchronous ones (DCP over FSDP2) and plain files of as many
bytes take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _contest.between_hosts import SETPRIV
from _contest.contest import BUILD, say, warn_if_loaded
from _contest.contestant import Contestant, Entry, Failed
from _contest.peers import python
from _contest.rounds import median_between, turns
from _train.field import SIZES

Row = dict[str, Any]

# By name, as in _checkpoint/savers.py.
OURS, DCP, DCP_KEPT, FILES, DIRECT = "engine", "dcp", "dcp_kept", "files", "direct_files"
NAMES = {
    DCP: "DCP's async_save",
    DCP_KEPT: "DCP, its stager kept",
    FILES: "write, fsync",
    DIRECT: "O_DIRECT, fsync",
}
PERSIST_BAR, STALL_BAR, STEPS_BAR = 0.9, 5.0, 1 / 1.035
EVERY = 10  # steps
TIMED = 4  # of them: the save begins after the first and ends before the last
PAIRS = 24
START_SECONDS, ANSWER_SECONDS = 180.0, 300.0


@dataclass(frozen=True)
class Plan:
    size: str  # of the model that is saved
    trained: str  # of that which is trained meanwhile
    rows: int  # of a rank's batch there
    rounds: int
    pairs: int  # of steps with a save and without
    ranks: int

    @property
    def bytes(self) -> int:
        return 3 * SIZES[self.size].bytes


def read_arguments() -> tuple[Plan, Path]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: a tiny model")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="turns of each that count")
    parser.add_argument(
        "--folder", type=Path, default=BUILD / "bench", help="on the disk that is to be measured"
    )
    given = parser.parse_args()
    if given.ranks < 2:
        parser.error("--ranks: 2 at least, DCP divides nothing of one")
    if given.quick:
        return Plan("tiny", "tiny", 4, given.rounds or 1, 2, given.ranks), given.folder
    return Plan("large", "medium", 256, given.rounds or 5, PAIRS, given.ranks), given.folder


@dataclass
class Side:
    """A saver, with the measurements of each save but the first, which sets things up."""

    name: str
    contestant: Contestant
    folder: Path
    stalls: list[float] = field(default_factory=list)
    persists: list[float] = field(default_factory=list)

    def save(self, step: int) -> None:
        for left in self.folder.glob("step-*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        os.sync()  # what others left is not ours to write
        said = numbers(self.contestant.ask(f"save {step}"))
        stall = max(held - begin for begin, held, _ in said)
        if self.name == OURS:  # which goes on copying: how long a step of training is held up
            stall = max(seconds for _, seconds in numbers(self.contestant.ask(f"stall {step + 1}")))
        if step > 0:
            self.stalls.append(stall)
            self.persists.append(max(end for *_, end in said) - min(held for _, held, _ in said))

    @property
    def stall(self) -> float:
        return statistics.median(self.stalls)

    @property
    def persist(self) -> float:
        return statistics.median(self.persists)


def numbers(answers: Sequence[str]) -> list[list[float]]:
    try:
        return [[float(word) for word in each.split()] for each in answers]
    except ValueError:
        raise Failed(f"a rank answers no times: {answers}") from None


class Field:
    """The folders and the ranks, which end with it."""

    def __init__(self, started: contextlib.ExitStack, plan: Plan, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._plan, self._started = plan, started
        self._folder = Path(
            started.enter_context(tempfile.TemporaryDirectory(prefix="saving-", dir=folder))
        )

    def start(self, name: str, size: str) -> Side:
        say(f"{name}: starting")
        own = self._folder / f"{name}-{size}"
        own.mkdir()
        ranks = self._plan.ranks
        command = [*SETPRIV, *python("_checkpoint.ranks", BUILD / "python")]
        entry = Entry(
            f"{name}-{size}",
            [*command, name, size, str(ranks), str(own)],
            start_seconds=START_SECONDS,
            answer_seconds=ANSWER_SECONDS,
        )
        sockets = Path(self._started.enter_context(tempfile.TemporaryDirectory()))
        contestant = self._started.enter_context(Contestant(entry, ranks, sockets))
        return Side(name, contestant, own)


def hold_saves(plan: Plan, folder: Path) -> list[Row]:
    with contextlib.ExitStack() as started:
        given = Field(started, plan, folder)
        sides = [given.start(name, plan.size) for name in (OURS, *NAMES)]
        for side in sides:
            side.save(0)
        for number, side in enumerate(turns(sides, plan.rounds)):
            side.save(2 + 2 * number)
            say(f"{side.name}: held up {side.stalls[-1]:.3f} s, then {side.persists[-1]:.3f} s")
        return rows({side.name: side for side in sides}, plan)


def rows(sides: dict[str, Side], plan: Plan) -> list[Row]:
    about = {"bench": "checkpoint", "ranks": plan.ranks, "model": plan.size, "bytes": plan.bytes}
    disk = min((sides[FILES], sides[DIRECT]), key=lambda side: side.persist)
    rates = {name: plan.bytes / side.persist / 1e6 for name, side in sides.items()}
    ours = sides[OURS]
    persist = about | {
        "case": "persist",
        "unit": "MB/s",
        "ours": rates[OURS],
        "peer": rates[disk.name],
        "peer_name": NAMES[disk.name],
        "ratio": rates[OURS] / rates[disk.name],
        "bar": PERSIST_BAR,
        **{f"{name}_rate": rates[name] for name in NAMES},
    }
    stalls = [
        about
        | {
            "case": "stall",
            "unit": "s",
            "ours": ours.stall,
            "peer": sides[name].stall,
            "peer_name": NAMES[name],
            "ratio": sides[name].stall / ours.stall,
            "bar": bar,
        }
        for name, bar in ((DCP, STALL_BAR), (DCP_KEPT, 1.0))
    ]
    return [persist, *stalls]


def hold_steps(plan: Plan, folder: Path) -> Row:
    """The cost of a save to ten steps: its stall, and the delay of the steps beside it.

    Timed are the few in which all of that lies, with a save and without, in pairs: of those many
    fit into a minute, and a difference of some percent is less than what the machine does to one.
    """
    with contextlib.ExitStack() as started:
        side = Field(started, plan, folder).start(OURS, plan.trained)
        seconds: dict[str, list[float]] = {"without": [], "with": []}
        side.save(0)
        side.contestant.ask(f"train {TIMED} {plan.rows} 1")
        for number, which in enumerate(turns(list(seconds), plan.pairs)):
            words = f"train {TIMED} {plan.rows}"
            said = numbers(
                side.contestant.ask(f"{words} {2 + number}" if which == "with" else words)
            )
            seconds[which].append(max(end for _, end in said) - min(begin for begin, _ in said))
    steps = EVERY / TIMED * statistics.median(seconds["without"])
    costs = [slow - fast for fast, slow in zip(seconds["without"], seconds["with"], strict=True)]
    cost, low, high = (
        100 * each / steps for each in (statistics.median(costs), *median_between(costs))
    )
    say(f"a save costs {EVERY} steps {cost:.1f} %; with a chance of 95 % {low:.1f} to {high:.1f} %")
    return {
        "bench": "checkpoint",
        "case": f"{EVERY} steps",
        "ranks": plan.ranks,
        "model": plan.trained,
        "bytes": 3 * SIZES[plan.trained].bytes,
        "rows": plan.rows,
        "unit": "s",
        "ours": steps + statistics.median(costs),
        "peer": steps,
        "peer_name": "without a save",
        "ratio": 1 / (1 + cost / 100),
        "bar": STEPS_BAR,
        "pairs": len(costs),
        "cost_percent": cost,
        "cost_percent_low": low,
        "cost_percent_high": high,
    }


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ranks and files go then too
    plan, folder = read_arguments()
    try:
        warn_if_loaded()
        for row in hold_saves(plan, folder):
            print(json.dumps(row), flush=True)
        print(json.dumps(hold_steps(plan, folder)), flush=True)
    except Failed as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
