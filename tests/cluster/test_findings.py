"""Findings of a run on two hosts: from a fake driver, and from the step times of its ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BUILD, Cluster, wait_until

MAP = """
pods:
  - name: pod
    leaves:
      - name: leaf
        hosts:
          - {id: one, address: 127.0.0.1, islands: [{devices: [{kind: gpu, count: 1}]}]}
          - {id: two, address: 127.0.0.1, islands: [{devices: [{kind: gpu, count: 1}]}]}
"""
HEALTHY = (
    "0 present 1\n0 power 400000\n0 utilization 96\n0 memory_utilization 50\n0 ecc_uncorrected 3\n"
)
# Stock DDP: it reports no times. Rank 0 says when all stop.
RANK = """
import os, time
import lockstep, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("lockstep")
slow = dist.get_rank() == 1
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100000):
    time.sleep(0.2 if slow and step >= 20 else 0.03)  # far apart: the machine may be busy
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    lockstep.log_flops(1e12, step, peak=1e14)
    ends = torch.tensor(float(os.path.exists(os.environ["GATE"])))
    dist.broadcast(ends, 0)
    if ends:
        break
"""


@pytest.fixture
def two_hosts(idle: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Two hosts with one GPU each, which the fake driver has."""
    (tmp_path / "map.yaml").write_text(MAP)
    (tmp_path / "nvml").write_text(HEALTHY)
    idle.environment["LD_LIBRARY_PATH"] = str(BUILD / "lib" / "fake_nvml_new")
    idle.environment["LOCKSTEP_FAKE_NVML"] = str(tmp_path / "nvml")
    idle.environment["GATE"] = str(tmp_path / "gate")
    yield idle
    idle.close()


def serve(cluster: Cluster, tmp_path: Path, *words: str) -> None:
    cluster.ok("serve", "--map", str(tmp_path / "map.yaml"), "--detach", *words)


def findings(cluster: Cluster, run: str, *words: str) -> list[dict[str, Any]]:
    listed = json.loads(cluster.ok("findings", run, "--json", *words))["findings"]
    return [dict(each) for each in listed]


def kinds(cluster: Cluster, run: str) -> set[tuple[str, str]]:
    return {(each["kind"], each["host"]) for each in findings(cluster, run)}


def set_driver(tmp_path: Path, words: str) -> None:
    (tmp_path / "next").write_text(words)
    (tmp_path / "next").rename(tmp_path / "nvml")


def test_faults_of_devices_are_found_and_outlive_the_daemon(
    two_hosts: Cluster, tmp_path: Path
) -> None:
    cluster, gate = two_hosts, tmp_path / "gate"
    serve(cluster, tmp_path, "--set", "finding_cordon=xid_error", "--set", "widespread_percent=100")
    run = cluster.submit(
        "-n", "2", "-g", "1", "--", "sh", "-c", f"while ! test -e {gate}; do sleep 0.05; done"
    )
    cluster.running_ranks(run)
    wait_until(
        "both hosts report",
        lambda: all(
            "device0/ecc_uncorrected_total" in cluster.ok("metrics", run, "--node", node)
            for node in ("0", "1")
        ),
    )
    assert findings(cluster, run) == [], "the errors are of before the run"
    faulty = HEALTHY.replace("ecc_uncorrected 3", "ecc_uncorrected 4")
    set_driver(tmp_path, faulty + "0 xid 79\n0 clocks_event_reasons 64\n")
    hosts = ("one", "two")
    wait_until(
        "ECC and Xid errors of both hosts",
        lambda: (
            {(kind, host) for kind in ("ecc_errors", "xid_error") for host in hosts}
            <= kinds(cluster, run)
        ),
    )
    cluster.kill_daemon()
    serve(cluster, tmp_path)
    expected = {
        (kind, host) for kind in ("ecc_errors", "xid_error", "throttling") for host in hosts
    }
    wait_until("throttling of both hosts", lambda: expected <= kinds(cluster, run))
    found = findings(cluster, run)
    assert len(found) == len(expected), "none is found twice"
    assert all(each["ended"] is None and each["device"] == 0 for each in found)
    acts = {each["kind"]: each["act"] for each in found}
    assert acts == {"ecc_errors": "event", "xid_error": "cordon", "throttling": "event"}
    audited = json.loads(cluster.ok("audit", "--action", "host.set", "--json"))["records"]
    assert {(each["user"], each["target"]) for each in audited} == {
        ("lockstep", "one"),
        ("lockstep", "two"),
    }
    assert "finding: xid_error: device 0, host one: Xid error 79" in cluster.ok("show", run)
    assert "throttling since" in cluster.ok("why", run)
    assert "xid_error" in cluster.ok("findings", run)
    set_driver(tmp_path, faulty)
    gate.touch()
    assert cluster.ended(run)["state"] == "succeeded"
    assert findings(cluster, run, "--open") == []
    [row] = json.loads(cluster.ok("usage", "--by", "run", "--json"))["rows"]
    assert row["run"] == run and row["device_kwh"] > 0 and row["idle_minutes"] == 0
    assert row["flops"] is None and row["flops_utilization_percent"] is None


def test_a_slow_rank_of_stock_ddp_is_named(two_hosts: Cluster, tmp_path: Path) -> None:
    cluster = two_hosts
    serve(cluster, tmp_path)
    (tmp_path / "rank.py").write_text(RANK)
    cluster.environment["PYTHONPATH"] = str(BUILD / "python")
    python = str(BUILD / "venv" / "bin" / "python")
    run = cluster.submit(
        *("-n", "2", "-g", "1", "--env", f"GATE={tmp_path / 'gate'}", "--"),
        *(python, str(tmp_path / "rank.py")),
    )
    cluster.running_ranks(run)
    [found] = wait_until("a finding", lambda: findings(cluster, run))
    nodes = cluster.show(run)["attempts"][0]["nodes"]
    place = ("straggler", nodes[1]["host"], 1, 0)
    assert (found["kind"], found["host"], found["rank"], found["device"]) == place
    assert "times as long as" in found["text"]
    (tmp_path / "gate").touch()
    assert cluster.ended(run)["state"] == "succeeded"
    [row] = json.loads(cluster.ok("usage", "--by", "run", "--json"))["rows"]
    assert row["flops"] > 1e13
    assert 1 < row["flops_utilization_percent"] < 40
