"""`lockstep profile`: traces of the next steps of running ranks, in one file."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import Cluster, wait_until

TRAINING = """
import torch, torch.distributed as dist, lockstep
dist.init_process_group("lockstep")
gradient = torch.ones(1000)
while True:
    dist.all_reduce(gradient)
    gradient.fill_(1)
    lockstep.profile_step()
"""

# A rank that hands over bytes of its own in place of a trace.
BYTES = """
import json, os, pathlib, time
folder, rank = pathlib.Path(os.environ["LOCKSTEP_PROFILE_DIR"]), int(os.environ["RANK"])
while not (folder / "order.json").exists():
    time.sleep(0.01)
request = json.loads((folder / "order.json").read_text())["request_id"]
(folder / f"rank-{rank}.gz").write_bytes(bytes([rank]) * (1_500_000 + rank))
state = {"request_id": request, "state": "done", "steps": 5}
(folder / "unfinished").write_text(json.dumps(state))
(folder / "unfinished").rename(folder / f"rank-{rank}.json")
time.sleep(1000)
"""


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of an error; a line before it says what the command waited for."""
    assert done.returncode != 0 and done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("waiting for")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def events_of(file: Path) -> list[dict[str, Any]]:
    trace = json.loads(gzip.decompress(file.read_bytes()))
    assert trace["baseTimeNanoseconds"] > 1.7e18
    events: list[dict[str, Any]] = trace["traceEvents"]
    for event in events:
        assert event["ph"] in "MXsft" and isinstance(event["pid"], int)
        assert isinstance(event["tid"], int) and isinstance(event["name"], str)
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0
    return events


def times(events: list[dict[str, Any]], name: str, rank: int) -> list[tuple[float, float]]:
    return [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"] == name and event["pid"] == rank
    ]


def test_ranks_of_several_hosts_are_rows_of_one_trace(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    run = cluster.submit("-n", "2", "--", "python", str(script))
    said = cluster.ok("profile", run, "--steps", "20", "--wait", "100s", cwd=tmp_path)
    name = f"profile-{run.replace('/', '-')}.json.gz"
    assert said.startswith(f"{name}: 20 steps of 2 ranks, ")

    events = events_of(tmp_path / name)
    rows = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert rows == {0: "rank 0 (node 0, device 0)", 1: "rank 1 (node 1, device 0)"}
    first, second = (times(events, "lockstep:all_reduce", rank) for rank in (0, 1))
    assert len(first) == len(second) == 20
    # The ranks begin at most some steps apart. A collective ends on neither before both are in it.
    meetings = [(a, b) for a in first for b in second if a[0] < b[1] and b[0] < a[1]]
    assert len(meetings) > 0
    steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]
    assert len(steps) == 40

    output = tmp_path / "one.gz"
    words = ("--rank", "1", "--steps", "2", "--json", "-o", str(output))
    report = json.loads(cluster.ok("profile", run, *words))
    assert report["ranks"] == [1] and report["bytes"] == output.stat().st_size
    assert {event["pid"] for event in events_of(output)} == {1}
    assert len(times(events_of(output), "lockstep:all_reduce", 1)) == 2

    missing = refused(cluster.command("profile", run, "--rank", "7", cwd=tmp_path))
    assert missing == f"lockstep: {run} has no rank 7; its ranks are 0 to 1"
    cluster.ok("stop", run)
    cluster.ended(run)
    over = refused(cluster.command("profile", run, "-o", "over.gz", cwd=tmp_path))
    assert over == f"lockstep: {run} has ended: only running programs take traces; run it again"
    assert sorted(path.name for path in tmp_path.glob("*.gz*")) == sorted([name, "one.gz"])


def test_a_long_trace_comes_in_parts(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "bytes.py"
    script.write_text(BYTES)
    run = cluster.submit("-n", "2", "--", "python3", str(script))
    cluster.ok("profile", run, "-o", "parts.gz", cwd=tmp_path)
    content = (tmp_path / "parts.gz").read_bytes()
    assert bytes([0]) * 1_500_000 in content and bytes([1]) * 1_500_001 in content
    assert content.count(bytes([1])) < 1_500_100


def test_ranks_that_take_no_trace_are_named_with_the_remedy(
    cluster: Cluster, tmp_path: Path
) -> None:
    mute = cluster.submit("--", "sleep", "1000")
    cluster.running_ranks(mute)
    said = refused(cluster.command("profile", mute, "--wait", "1s", cwd=tmp_path))
    assert f"rank 0 of {mute} has not called lockstep.profile_step() within 1s" in said

    called = 'echo "{}" > $LOCKSTEP_PROFILE_DIR/rank-$RANK.json; echo called; sleep 1000'
    stuck = cluster.submit("--", "sh", "-c", called)
    wait_until("it runs", lambda: "called" in "".join(cluster.logs(stuck)))
    said = refused(cluster.command("profile", stuck, "--wait", "1s", cwd=tmp_path))
    assert f"rank 0 of {stuck} made no step within 1s: `lockstep flight {stuck}`" in said

    waiting = cluster.submit("-n", "2", "--devices", "2", "--", "true")
    said = refused(cluster.command("profile", waiting, cwd=tmp_path))
    assert f"`lockstep why {waiting}`" in said
    said = refused(cluster.command("profile", mute, "--rank", "2-1", cwd=tmp_path))
    assert "--rank: expected a rank, or ranks such as 0-3 or 0,2, got '2-1'" in said
    assert list(tmp_path.glob("*.gz*")) == []
