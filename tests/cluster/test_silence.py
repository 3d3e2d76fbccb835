"""An agent that does not call for a while."""

from __future__ import annotations

import os
import re
import signal

from tests.conftest import Cluster, wait_until

UNREACHABLE = r"has been unreachable for \d+s; its ranks may go on"


def test_a_node_whose_agent_is_stopped_for_a_moment_is_unreachable_and_goes_on(
    idle: Cluster,
) -> None:
    idle.serve("1x1", "--set", "unreachable_after=15s")
    run = idle.submit("--", "sleep", "100")
    idle.running_ranks(run)
    agent = idle.show(run)["attempts"][0]["nodes"][0]["agent_pid"]
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_until("the node is unreachable", lambda: idle.show(run)["unreachable"])
        for command in (["ps"], ["why", run], ["show", run]):
            assert re.search(UNREACHABLE, idle.ok(*command)), command
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_until("the node is reachable", lambda: not idle.show(run)["unreachable"])
    shown = idle.show(run)
    assert shown["state"] == "running" and len(shown["attempts"]) == 1 and shown["losses"] == 0
    assert "is reachable again after" in shown["events"][-1]["what"]
