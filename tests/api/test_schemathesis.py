"""Calls made from the API's own description, right ones and wrong ones: none may bring the daemon
to an answer of 500 and over, or to one that the description does not have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.api.calls import address, agent_token, user_token

from tests.conftest import ROOT, Cluster

HEARTBEAT = "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/heartbeat"
EXAMPLES = 30  # of each route and phase: over a minute for all


def schemathesis(cluster: Cluster, token: str, folder: Path, *which: str) -> None:
    """Makes the same calls each time, for the same description."""
    host, port = address(cluster)
    ended = subprocess.run(
        [
            str(Path(sys.executable).with_name("st")),
            f"--config-file={ROOT / 'tests' / 'api' / 'schemathesis.toml'}",
            "run",
            str(ROOT / "docs" / "api" / "openapi.json"),
            f"--url=http://{host}:{port}",
            f"--header=Authorization: Bearer {token}",
            "--phases=examples,coverage,fuzzing",
            "--checks=all",
            # A schema cannot express every rule: a run must fit the cluster, a heartbeat its
            # path.
            "--exclude-checks=positive_data_acceptance",
            "--mode=all",
            "--generation-deterministic",
            f"--max-examples={EXAMPLES}",
            "--continue-on-failure",
            "--no-color",
            *which,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]


def test_no_call_of_a_user_brings_the_daemon_out_of_its_description(
    idle: Cluster, tmp_path: Path
) -> None:
    idle.serve("1x1")
    # The run of the path's examples. It has ended, so that no call of it starts a process.
    idle.ended(idle.submit("--project", "demo", "--", "true"))
    idle.submit("--project", "hold", "--", "sleep", "1000")
    schemathesis(idle, user_token(idle), tmp_path, f"--exclude-path={HEARTBEAT}")


def test_no_call_of_an_agent_brings_the_daemon_out_of_its_description(
    idle: Cluster, tmp_path: Path
) -> None:
    idle.serve("1x1")
    idle.ended(idle.submit("--project", "demo", "--", "true"))
    token = agent_token(idle, "demo/1.1")
    schemathesis(idle, token, tmp_path, f"--include-path={HEARTBEAT}")
