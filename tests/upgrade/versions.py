"""The last released version and this one at the same time: daemons, agents and command lines.

`./dev check upgrade` runs it; LOCKSTEP_LAST_VERSION is the program of the last version.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROGRAM, Cluster, wait_until

LAST = Path(os.environ["LOCKSTEP_LAST_VERSION"])
LINES = 200


class Installation(Cluster):
    """A cluster whose program is replaced as a package manager does it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home", folder / "bin" / "lockstep")
        self.folder = folder
        self.program.parent.mkdir()

    def install(self, program: Path) -> None:
        unpacked = self.program.with_suffix(".new")
        shutil.copy2(program, unpacked)
        unpacked.replace(self.program)

    def start(self, gate: Path) -> str:
        """A run of two nodes that prints, then waits for the gate, then prints on."""
        count = f"for i in $(seq {LINES}); do echo $RANK-$i; done"
        script = f"{count}; while ! test -e {gate}; do sleep 0.05; done; {count}; echo done"
        return self.submit("-n", "2", "--", "sh", "-c", script)

    def agents_are(self, program: Path) -> bool:
        """True if all agents execute this program's file."""
        agents = [pid for pid in self.processes() if is_agent(pid)]
        return bool(agents) and all(
            filecmp.cmp(f"/proc/{pid}/exe", program, shallow=False) for pid in agents
        )

    def check_whole(self, run: str) -> None:
        """One attempt, and each line once."""
        view = self.ended(run)
        assert view["state"] == "succeeded" and len(view["attempts"]) == 1, view["reason"]
        lines = sorted(line.split("] ")[1] for line in self.logs(run))
        once = [f"{rank}-{i}" for rank in (0, 1) for i in range(1, LINES + 1)]
        assert lines == sorted([*once, *once, "done", "done"])


def is_agent(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 1 and words[1] == b"agent"


def tables(store: Path) -> int:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        return int(database.execute("select version from schema_version").fetchone()[0])


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    cluster = Installation(tmp_path)
    yield cluster
    if (cluster.home / "daemon.json").exists():
        cluster.close()


def test_runs_of_the_last_version_go_on_under_a_daemon_of_this_one(here: Installation) -> None:
    gate, store = here.folder / "gate", here.home / "lockstep.db"
    here.install(LAST)
    here.serve()
    run = here.start(gate)
    here.running_ranks(run)
    here.ok("serve", "--stop")
    before = tables(store)
    here.install(PROGRAM)
    here.ok("serve", "--again", "--detach")
    assert here.agents_are(LAST)
    copies = [path.name for path in here.home.glob("lockstep.db.tables-*")]
    assert copies == ([f"lockstep.db.tables-{before}"] if tables(store) > before else [])
    gate.touch()
    here.check_whole(run)


def test_agents_and_commands_of_this_version_work_with_a_daemon_of_the_last_one(
    here: Installation,
) -> None:
    gate = here.folder / "gate"
    here.install(LAST)
    here.serve()
    here.install(PROGRAM)  # version 0.1 starts agents from the file at its path
    run = here.start(gate)
    here.running_ranks(run)
    assert here.agents_are(PROGRAM)
    assert here.ok("version").strip() != ""
    gate.touch()
    here.check_whole(run)


def test_commands_of_the_last_version_work_with_a_daemon_of_this_one(here: Installation) -> None:
    gate = here.folder / "gate"
    here.install(PROGRAM)
    here.serve()
    here.install(LAST)
    run = here.start(gate)
    here.running_ranks(run)
    assert here.agents_are(PROGRAM), "a daemon starts agents of its own version"
    for words in (["ps"], ["queue"], ["why", run], ["host", "ls"], ["metrics", run]):
        here.ok(*words)
    gate.touch()
    here.check_whole(run)
    stopped = here.submit("--", "sleep", "1000")
    here.ok("stop", stopped)
    here.ended(stopped)
    here.ok("resume", stopped)
    here.ok("stop", stopped)


def test_the_last_version_goes_back_to_the_store_that_was_copied(here: Installation) -> None:
    store = here.home / "lockstep.db"
    here.install(LAST)
    here.serve()
    run = here.submit("--", "echo", "kept")
    here.ended(run)
    here.ok("serve", "--stop")
    before = tables(store)
    here.install(PROGRAM)
    here.serve()
    here.ok("serve", "--stop")
    if tables(store) > before:
        (here.home / f"lockstep.db.tables-{before}").replace(store)
        for suffix in ("-wal", "-shm"):
            Path(f"{store}{suffix}").unlink(missing_ok=True)
    here.install(LAST)
    here.ok("serve", "--again", "--detach")
    assert here.show(run)["state"] == "succeeded"
    assert wait_until("its line", lambda: here.logs(run))[0].endswith("kept")
