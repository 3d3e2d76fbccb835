"""The daemon and its agents while their clock is set forward by a month and back by an hour."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import Cluster, is_alive, wait_until

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
# libfaketime moves absolute times of timers by the offset, also those of the monotonic clock, which
# it does not set. Asio arms a timer that is due by such a time, and would wait for another one.
TIMERS = """
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
int timerfd_settime(int fd, int flags, const struct itimerspec* wanted, struct itimerspec* before) {
  return syscall(SYS_timerfd_settime, fd, flags, wanted, before);
}
"""


class SetCluster(Cluster):
    """Its daemon and agents have a clock of their own; the commands have the machine's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home")
        self.timers = folder / "timers.so"
        compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(self.timers), "-"]
        subprocess.run(compiler, input=TIMERS, text=True, check=True)
        self.file = folder / "offset"
        self.set("+0")

    def set(self, offset: str) -> None:
        written = self.file.with_suffix(".new")
        written.write_text(offset + "\n")
        os.replace(written, self.file)

    def serve(self, hosts: str = "2x2", *words: str) -> None:
        plain = self.environment
        self.environment = {
            **plain,
            "LD_PRELOAD": f"{self.timers} {LIBRARY}",
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        try:
            super().serve(hosts, *words)
        finally:
            self.environment = plain


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SetCluster]:
    if not LIBRARY.exists():
        pytest.skip("Debian's package faketime is not installed")
    cluster = SetCluster(tmp_path)
    cluster.serve("2x2")
    yield cluster
    cluster.close()


def said(cluster: Cluster, words: str) -> bool:
    return words in (cluster.home / "daemon.log").read_text()


def test_a_clock_that_is_set_ends_removes_and_stalls_nothing(cluster: SetCluster) -> None:
    ended = cluster.submit("--", "echo", "a line that is kept")
    cluster.ended(ended)
    run = cluster.submit("-n", "2", "--timeout", "10m", "--", "sleep", "1000")
    cluster.running_ranks(run)

    cluster.set("+30d")
    wait_until("the daemon sees it", lambda: said(cluster, "the clock was set forward by "))
    late = cluster.submit("--retries", "2", "--", "false")
    assert cluster.ended(late)["attempts"][-1]["epoch"] == 3, "it is tried again after a pause"
    cluster.kill_daemon()
    cluster.serve("2x2")
    cluster.set("-1h")
    wait_until("the daemon sees it", lambda: said(cluster, "the clock was set back by "))
    back = cluster.submit("--retries", "2", "--", "false")
    assert cluster.ended(back)["attempts"][-1]["epoch"] == 3

    view = cluster.show(run)
    assert view["state"] == "running" and len(view["attempts"]) == 1
    assert view["running_seconds"] < 300
    assert "a line that is kept" in cluster.logs(ended)
    cluster.ok("stop", run)
    assert cluster.ended(run)["state"] == "cancelled"


def test_a_rank_that_ends_before_the_clock_is_set_is_charged_its_time_by_the_next_daemon(
    cluster: SetCluster, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    submitted = time.monotonic()
    waits = f"while ! test -e {end}; do sleep 0.05; done; exit 3"
    run = cluster.submit("--timeout", "10m", "--", "sh", "-c", waits)
    [rank] = cluster.running_ranks(run)
    seen = time.monotonic()
    cluster.kill_daemon()
    least = time.monotonic() - seen
    end.touch()
    wait_until("the rank has ended", lambda: not is_alive(rank["pid"]))
    most = time.monotonic() - submitted
    cluster.set("+30d")
    cluster.serve("2x2")

    view = cluster.ended(run)
    assert view["state"] == "failed" and view["attempts"][-1]["cause"] == "user_exit"
    assert least <= view["running_seconds"] <= most
    started, ended = (datetime.fromisoformat(view[word]) for word in ("started", "ended"))
    ran = (ended - started).total_seconds()
    assert view["running_seconds"] <= ran <= time.monotonic() - submitted
    away = (ended - datetime.fromisoformat(view["submitted"])).total_seconds()
    assert away > 29 * 24 * 3600, "the history keeps the time that the clock showed"
