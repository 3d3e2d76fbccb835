"""Ranks are killed during collectives: all others detect it, and continue in a new group.

Each round a group of two to five ranks on one or two (pretended) hosts meets, calls collectives
drawn at random, checks every result, and loses a rank at a random moment. All others must learn of
it within the bound, by an error that names the rank; they leave the group and are the next round's
ranks, with new ones for those that are gone. Their descriptors and memory must not grow,
and in the end nothing must be left in /dev/shm.

    ./dev bench soak [--seconds N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import selectors
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build")).resolve()

NOTICED_BAR = 1.0  # seconds from a rank's death until all others have their error
ANSWER_MAX = 30.0  # seconds that anything may take
RANKS_MOST = 5
DESCRIPTORS_MORE = 8  # than after the first rounds, at most
MIB_MORE = 64
QUIET = {"LOCKSTEP_LOG": "warning", "LOCKSTEP_INTERFACE": "lo"}


class Violation(Exception):
    pass


class Process:
    """A rank, as long as it lives: of one group after the other."""

    def __init__(self, secret: str) -> None:
        program = BUILD / "bin" / "bench_soak"
        self._process = subprocess.Popen(
            [str(program)],
            env=os.environ | QUIET,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._pending = b""
        self.tell(secret)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def line(self) -> str | None:
        """The next line that has come whole; Violation when the process has ended."""
        if b"\n" not in self._pending:
            came = os.read(self.fileno(), 65536)
            if not came:
                raise Violation(f"a rank ended by itself with status {self._process.wait()}")
            self._pending += came
        whole, newline, rest = self._pending.partition(b"\n")
        if not newline:
            return None
        self._pending = rest
        return whole.decode()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    @property
    def private_mib(self) -> int:
        """The private memory: lent buffers are shared memory and counted where they are mapped."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) // 1024
        return 0


def answers(processes: list[Process], bound: float) -> dict[Process, tuple[float, str]]:
    """One line of each, and when it came."""
    came: dict[Process, tuple[float, str]] = {}
    deadline = time.monotonic() + bound
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process, selectors.EVENT_READ)
        while len(came) < len(processes):
            if (left := deadline - time.monotonic()) <= 0:
                raise Violation(f"{len(processes) - len(came)} ranks say nothing for {bound:.0f} s")
            for key, _ in selector.select(left):
                process = key.fileobj
                assert isinstance(process, Process)
                if (line := process.line()) is not None:
                    came[process] = (time.monotonic(), line)
                    selector.unregister(process)
    return came


def expect_all(processes: list[Process], expected: str, bound: float = ANSWER_MAX) -> None:
    for _, line in answers(processes, bound).values():
        if line != expected:
            raise Violation(f"a rank said '{line}' where '{expected}' was expected")


@dataclass
class Soak:
    dice: random.Random
    secret: str = field(default_factory=lambda: secrets.token_hex(32))
    ranks: list[Process] = field(default_factory=list)
    learnt: list[float] = field(default_factory=list)  # seconds
    rounds: int = 0
    held: tuple[int, int] | None = None  # descriptors and MiB after the first rounds

    def start(self) -> None:
        self.place = Process(self.secret)
        self.place.tell("serve")
        ((_, line),) = answers([self.place], ANSWER_MAX).values()
        self.port = int(line.removeprefix("port "))

    def play(self) -> None:
        """One group, from its rendezvous to a rank's death, and the reports of the others."""
        size = self.dice.randint(2, RANKS_MOST)
        while len(self.ranks) < size:
            self.ranks.append(Process(self.secret))
        group = self.dice.sample(self.ranks, size)
        hosts = self.dice.randint(1, 2)
        for rank, process in enumerate(group):
            host = f"host-{rank * hosts // size}"
            process.tell(f"join {self.port} round-{self.rounds} {rank} {size} {host}")
        expect_all(group, "joined")
        time.sleep(self.dice.uniform(0.02, 0.8))  # the moment is what is tried
        victim = self.dice.randrange(size)
        killed = time.monotonic()
        group[victim].kill()
        self.ranks.remove(group[victim])
        others = [process for process in group if process is not group[victim]]
        for at, line in answers(others, ANSWER_MAX).values():
            self.learnt.append(at - killed)
            if f"rank {victim}" not in line:
                raise Violation(f"rank {victim} of {size} was killed; a rank says: {line}")
        for process in others:
            process.tell("leave")
        expect_all(others, "left")
        self.rounds += 1
        self.check_resources()

    def check_resources(self) -> None:
        for process in self.ranks:
            now = (process.descriptors, process.private_mib)
            self.held = self.held or now
            if now[0] > self.held[0] + DESCRIPTORS_MORE or now[1] > self.held[1] + MIB_MORE:
                raise Violation(
                    f"between groups a rank holds {now[0]} descriptors and {now[1]} MiB, "
                    f"after the first it was {self.held[0]} and {self.held[1]}"
                )

    def end(self) -> None:
        for process in [*self.ranks, self.place]:
            process.kill()


def row(soak: Soak, seconds: float) -> dict[str, object]:
    slowest = max(soak.learnt)
    return {
        "bench": "soak",
        "case": "a rank is killed: until all others have their error",
        "kills": soak.rounds,
        "minutes": round(seconds / 60, 1),
        "median": round(statistics.median(soak.learnt), 4),
        "unit": "s",
        "ours": round(slowest, 4),
        "peer": NOTICED_BAR,
        "peer_name": "allowed",
        "ratio": round(NOTICED_BAR / slowest, 2),
        "bar": 1.0,
    }


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    left_before = set(os.listdir("/dev/shm"))
    soak = Soak(random.Random(given.seed))
    begun = said = time.monotonic()
    try:
        soak.start()
        while time.monotonic() - begun < given.seconds:
            soak.play()
            if time.monotonic() - said > 10:
                said = time.monotonic()
                say(f"{soak.rounds} kills, the slowest error after {max(soak.learnt):.3f} s")
    except Violation as violation:
        say(f"VIOLATED in round {soak.rounds} of seed {given.seed}: {violation}")
        return 1
    finally:
        soak.end()
    if left := set(os.listdir("/dev/shm")) - left_before:
        say(f"VIOLATED: left in /dev/shm: {', '.join(sorted(left))}")
        return 1
    print(json.dumps(row(soak, time.monotonic() - begun)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
