"""The telemetry of the nodes of a run, from a fake driver to the command line."""

from __future__ import annotations

import json
import time
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
          - {id: one, address: 127.0.0.1, islands: [{devices: [{kind: gpu, count: 2}]}]}
"""
NVML = """
0 present 1
0 utilization 11
0 memory_utilization 5
0 power 100000
1 present 1
1 utilization 97
1 memory_utilization 41
1 power 312500
"""


@pytest.fixture
def with_gpus(idle: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """One host with two GPUs, which the fake driver has."""
    (tmp_path / "map.yaml").write_text(MAP)
    (tmp_path / "nvml").write_text(NVML)
    idle.environment["LD_LIBRARY_PATH"] = str(BUILD / "lib" / "fake_nvml_new")
    idle.environment["LOCKSTEP_FAKE_NVML"] = str(tmp_path / "nvml")
    idle.ok("serve", "--map", str(tmp_path / "map.yaml"), "--detach")
    yield idle
    idle.close()


def telemetry(cluster: Cluster, run: str) -> dict[str, dict[str, Any]]:
    listed = json.loads(cluster.ok("metrics", run, "--node", "0", "--json"))
    return {series["name"]: series for series in listed["series"]}


def last(series: dict[str, Any] | None) -> float | None:
    return float(series["points"][-1]["value"]) if series else None


def test_a_run_has_the_telemetry_of_its_devices_and_of_its_host(
    with_gpus: Cluster, tmp_path: Path
) -> None:
    cluster, begin = with_gpus, time.time()
    gate = tmp_path / "gate"
    run = cluster.submit(
        "-g", "1", "--", "sh", "-c", f"while ! test -e {gate}; do sleep 0.05; done"
    )
    cluster.running_ranks(run)
    found = wait_until(
        "a device and a rate of the host",
        lambda: (
            (known := telemetry(cluster, run))
            and "cpu/utilization_percent" in known
            and any(name.endswith("/power_watts") and name.startswith("device") for name in known)
            and known
        ),
    )
    device = next(name for name in found if name.startswith("device")).partition("/")[0]
    assert {name.partition("/")[0] for name in found if name.startswith("device")} == {device}
    power = {"device0": 100.0, "device1": 312.5}[device]
    assert last(found[f"{device}/power_watts"]) == power
    assert (last(found["memory/available_bytes"]) or 0) > 0
    for point in found["memory/available_bytes"]["points"]:
        assert begin - 1 <= point["step"] <= time.time() + 1
    [reading] = json.loads(cluster.ok("top", "--json"))["readings"]
    assert (reading["run"], reading["host"], reading["power_watts"]) == (run, "one", power)
    [line] = [each for each in cluster.ok("top").splitlines() if each.startswith(run)]
    assert f"{power:.0f} W" in line
    (tmp_path / "nvml").write_text(NVML + f"{device[-1]} lost 1\n")
    wait_until("the device is lost", lambda: last(telemetry(cluster, run)[f"{device}/lost"]) == 1)
    table = cluster.ok("metrics", run, "--node", "0")
    assert "NODE" in table and f"{device}/lost" in table
    assert json.loads(cluster.ok("metrics", run, "--json"))["series"] == []
    assert cluster.show(run)["progress"] is None
    gate.touch()
    assert cluster.ended(run)["state"] == "succeeded"
    assert "cpu" in cluster.ok("plot", run, "cpu/utilization_percent", "--node", "0")
    refused = cluster.command("metrics", run, "--node", "1")
    assert refused.returncode != 0 and "has no node 1" in refused.stderr
