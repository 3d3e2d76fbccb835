"""A gang whose ranks write numbered lines, so that a test sees each that is missing."""

from __future__ import annotations

from tests.hosts.cluster import Cluster
from tests.hosts.testbed import Testbed

from tests.conftest import PATIENCE, wait_until


def ticks(name: str) -> str:
    """A script for ranks: a line every 0.1 s until /shared/done-NAME is there."""
    done = f"/shared/done-{name}"
    return f"i=0; while [ ! -e {done} ]; do i=$((i+1)); echo tick $RANK $i; sleep 0.1; done"


class Ticking:
    """A gang that runs until it is told to end."""

    def __init__(self, cluster: Cluster, testbed: Testbed, name: str, nodes: int = 4) -> None:
        self.cluster = cluster
        self._done = testbed.shared / f"done-{name}"
        self.run = cluster.submit(ticks(name), "--name", name, nodes=nodes)
        cluster.await_state(self.run, "running")

    def ticks(self) -> dict[int, list[int]]:
        """By rank, as they are in the log."""
        found: dict[int, list[int]] = {}
        for line in self.cluster.lines(self.run):
            words = line.split()
            if words[0] == "tick":
                found.setdefault(int(words[1]), []).append(int(words[2]))
        return found

    def await_progress(self) -> None:
        """Every rank has written lines since the call."""
        before = {rank: len(lines) for rank, lines in self.ticks().items()}
        wait_until(
            f"{self.run} goes on",
            lambda: all(len(lines) > before.get(rank, 0) for rank, lines in self.ticks().items()),
            2 * PATIENCE,
        )

    def end(self) -> None:
        """It succeeds in its first attempt, and no line is missing or twice."""
        self._done.touch()
        view = self.cluster.await_state(self.run, "succeeded")
        assert len(view["attempts"]) == 1, view
        found = self.ticks()
        for rank, lines in found.items():
            assert lines == list(range(1, len(lines) + 1)), (rank, lines)
        assert sorted(found) == list(range(len(found)))
