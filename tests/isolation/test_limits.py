"""A node gets no more memory, CPU time and processes than its run asks for."""

from __future__ import annotations

import os
import signal

import pytest
from tests.isolation.conftest import CGROUPS, User, cgroups_of

from tests.conftest import Cluster, wait_until

pytestmark = pytest.mark.skipif(
    not (CGROUPS / "cgroup.controllers").exists() and not (CGROUPS / "memory").exists(),
    reason="this machine has no control groups",
)

GREEDY = "x = bytearray(1 << 29); x[::4096] = bytes(len(x[::4096])); print('has it')"
# As many sleeping children as it gets; prints their number.
FORKS = """
import os, time
children = []
try:
    for _ in range(200):
        if (pid := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
except BlockingIOError:
    pass
print("children", len(children), flush=True)
for pid in children:
    os.kill(pid, 9)
"""


def test_a_rank_that_uses_more_memory_than_its_run_asks_for_ends_as_oom(
    admin: Cluster, ann: User
) -> None:
    run = ann.submit("--memory", "128 MiB", "--", "python3", "-c", GREEDY)
    view = ann.ended(run)
    (attempt,) = view["attempts"]
    assert view["state"] == "failed" and attempt["cause"] == "oom", view
    assert "rank 0 on " in view["reason"]
    assert (
        "was killed: the node used more than its 128.0 MiB of memory; ask for more with --memory"
        in view["reason"]
    )
    wait_until("its control groups are gone", lambda: not cgroups_of(admin))
    run = ann.submit("--memory", "1 GiB", "--", "python3", "-c", GREEDY)
    assert ann.ended(run)["state"] == "succeeded"
    assert "has it" in ann.output(run)


def test_a_node_has_no_more_processes_than_its_run_asks_for(ann: User) -> None:
    run = ann.submit("--processes", "60", "--", "python3", "-c", FORKS)
    assert ann.ended(run)["state"] == "succeeded"
    line = next(x for x in ann.logs(run) if "children " in x)
    assert 5 < int(line.split()[-1]) < 60


def test_the_cpu_time_is_that_of_the_cores_of_the_run_and_the_user_cannot_change_it(
    admin: Cluster, ann: User
) -> None:
    run = ann.submit("--cores", "1", "--", "sleep", "600")
    admin.running_ranks(run)
    limits = [
        (group / name).read_text().split()[0]
        for group in cgroups_of(admin)
        for name in ("cpu.cfs_quota_us", "cpu.max")
        if (group / name).exists()
    ]
    assert limits == ["100000"]
    for group in cgroups_of(admin):
        assert (group / "cgroup.procs").stat().st_uid == 0
    pids = {
        int(pid)
        for group in cgroups_of(admin)
        for pid in (group / "cgroup.procs").read_text().split()
    }
    assert set(admin.processes()) <= pids
    ann.ok("stop", run)
    ann.ended(run)


def test_a_daemon_that_starts_again_removes_the_groups_of_nodes_that_ended_meanwhile(
    admin: Cluster, ann: User
) -> None:
    run = ann.submit("--rank-loss-retries", "0", "--", "sleep", "600")
    admin.running_ranks(run)
    admin.kill_daemon()
    for pid in admin.processes():
        os.kill(pid, signal.SIGKILL)
    wait_until("no process is left", lambda: not admin.processes())
    assert cgroups_of(admin)
    admin.serve("1x4")
    ann.environment["LOCKSTEP_URL"] = admin.url()
    assert ann.ended(run)["attempts"][-1]["cause"] == "node_lost"
    wait_until("its control groups are gone", lambda: not cgroups_of(admin))
