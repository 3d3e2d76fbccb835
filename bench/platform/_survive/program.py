"""The program of the ranks of a survival round: steps of 20 ms in lockstep, with a log of its own.

usage: program.py DIARY_FOLDER STEPS EXIT_CODE

Every rank reports each step (a metric, a line with a counter; rank 0 the progress too) and writes
into its log before and after it did so. Rank 0 keeps a checkpoint, from which the next attempt
goes on. Ranks wait for each other after every step, over rank 0's port MASTER_PORT; one whose peer
is gone exits with code 1, as a training does whose collective failed.

The log is the truth with which the bench compares the store: a line that was written survives
SIGKILL, because the kernel has it. One JSON object a line; times are of the monotonic clock, which
all processes of the machine share.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import lockstep

STEP_SECONDS = 0.02
CHECKPOINT_EVERY = 5
RENDEZVOUS_SECONDS = 60.0
PEER_LOST = 1

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
EPOCH = int(os.environ["LOCKSTEP_EPOCH"])
RUN = os.environ["LOCKSTEP_RUN"].replace("/", "-")
CHECKPOINT = Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"]) / "state.json"


def born(pid: int) -> str | None:
    """When a living process began, by the kernel's count; none when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


class RankLogWriter:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / f"{RUN}.{EPOCH}.{RANK}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, kind: str, **words: object) -> None:
        entry = {"kind": kind, "time": time.monotonic(), **words}
        os.write(self._file, json.dumps(entry).encode() + b"\n")

    def start(self) -> None:
        agent = os.getppid()
        self.write(
            "start",
            pid=os.getpid(),
            born=born(os.getpid()),
            agent=agent,
            agent_born=born(agent),
            node=int(os.environ["LOCKSTEP_NODE"]),
            host=os.environ["LOCKSTEP_HOST_ID"],
            ports=[int(os.environ["MASTER_PORT"]), self._rendezvous_port()],
            others=self._ranks_of_other_attempts(),
        )

    @staticmethod
    def _rendezvous_port() -> int:
        return int(os.environ["LOCKSTEP_RENDEZVOUS"].rpartition(":")[2])

    def _ranks_of_other_attempts(self) -> list[str]:
        """Logs of living ranks of this run's other attempts. There must be none."""
        living = []
        for path in self._folder.glob(f"{RUN}.*"):
            if path.name.split(".")[1] == str(EPOCH):
                continue
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                if entry["kind"] == "start" and born(entry["pid"]) == entry["born"]:
                    living.append(path.name)
        return living


class Peers:
    """The other ranks: one connection each at rank 0, one to rank 0 at the others."""

    def __init__(self) -> None:
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._connections = _accept(address) if RANK == 0 else [_connect(address)]

    def agree(self, step: int) -> int:
        """Rank 0's step, once all ranks are here."""
        word = step.to_bytes(8, "big")
        if RANK == 0:
            for connection in self._connections:
                _receive(connection)
        for connection in self._connections:
            connection.sendall(word)
        return step if RANK == 0 else _receive(self._connections[0])


def _accept(address: tuple[str, int]) -> list[socket.socket]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(WORLD_SIZE)
    listener.settimeout(RENDEZVOUS_SECONDS)
    connections = [listener.accept()[0] for _ in range(WORLD_SIZE - 1)]
    for connection in connections:
        connection.settimeout(RENDEZVOUS_SECONDS)
    return connections


def _connect(address: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + RENDEZVOUS_SECONDS
    while True:
        try:
            return socket.create_connection(address, RENDEZVOUS_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _receive(connection: socket.socket) -> int:
    word = b""
    while len(word) < 8:
        more = connection.recv(8 - len(word))
        if not more:
            raise ConnectionError("a peer is gone")
        word += more
    return int.from_bytes(word, "big")


def last_checkpoint() -> int:
    try:
        return int(json.loads(CHECKPOINT.read_text())["step"])
    except FileNotFoundError:
        return 0


def write_checkpoint(step: int) -> None:
    """Written beside its path, then renamed, so that it is complete or missing."""
    fresh = CHECKPOINT.with_suffix(f".{EPOCH}.tmp")
    fresh.write_text(json.dumps({"step": step, "epoch": EPOCH}))
    fresh.rename(CHECKPOINT)
    lockstep.checkpoint(step, CHECKPOINT)


def do_step(log: RankLogWriter, step: int, steps: int) -> None:
    time.sleep(STEP_SECONDS)
    log.write("begin", step=step)
    lockstep.log({"value": step + EPOCH / 1000}, step=step)
    if RANK == 0:
        lockstep.progress(step, steps)
    print(f"counted {EPOCH} {RANK} {step}", flush=True)
    log.write("done", step=step)


def train(log: RankLogWriter, steps: int) -> None:
    peers = Peers()
    first = peers.agree(last_checkpoint()) + 1
    for step in range(first, steps + 1):
        do_step(log, step, steps)
        peers.agree(step)
        if RANK == 0 and step % CHECKPOINT_EVERY == 0:
            write_checkpoint(step)


def main() -> int:
    log = RankLogWriter(Path(sys.argv[1]))
    log.start()
    try:
        train(log, int(sys.argv[2]))
    except OSError as error:
        print(f"rank {RANK}: {error}", flush=True)
        return PEER_LOST
    log.write("end")
    return int(sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())
