"""Metrics of several ranks as typed: the band, the rank that stands out, and each rank."""

from __future__ import annotations

import json

import pytest
from tests.api.calls import ask

from tests.conftest import Cluster

PROGRAM = """
import lockstep, os
rank = int(os.environ["RANK"])
for step in range(1, 4):
    lockstep.log({"loss": 9.0 * step if rank == 1 else 1.0}, step=step)
if rank == 2:
    lockstep.log({"accuracy": 0.25}, step=3)
"""


def test_a_metric_of_several_ranks_is_a_band_that_names_the_outlier(cluster: Cluster) -> None:
    run = cluster.submit("-g", "3", "--", "python", "-c", PROGRAM)
    assert cluster.ended(run)["state"] == "succeeded"

    header, accuracy, loss = cluster.ok("metrics", run).splitlines()
    assert header.split()[:3] == ["METRIC", "RANK", "POINTS"]
    assert accuracy.split() == ["accuracy", "2", "1", "0.25", "0.25", "0.25", "0.25", "3"]
    assert loss.split()[:3] == ["loss", "all", "3"]
    assert "1 (rank 0)" in loss and "27 (rank 1)" in loss

    each = cluster.ok("metrics", run, "--each-rank", "--name", "loss").splitlines()[1:]
    assert [line.split()[:2] for line in each] == [["loss", str(rank)] for rank in range(3)]
    alone = cluster.ok("metrics", run, "--rank", "1").splitlines()[1:]
    assert [line.split()[:2] for line in alone] == [["loss", "1"]]

    drawn = cluster.ok("plot", run)
    for name in ("loss mean", "loss least, mostly rank 0", "loss greatest, mostly rank 1"):
        assert name in drawn
    assert "mostly" not in cluster.ok("plot", run, "--rank", "1")
    assert "mostly" not in cluster.ok("plot", run, "accuracy")

    found = json.loads(cluster.ok("metrics", run, "--name", "loss", "--json"))["series"]
    assert [one["statistic"] for one in found] == ["mean", "min", "max", "spread"]
    assert found[2]["point_ranks"] == [1, 1, 1]
    assert [point["value"] for point in found[2]["points"]] == [9, 18, 27]
    assert [point["value"] for point in found[0]["points"]] == pytest.approx(
        [11 / 3, 20 / 3, 29 / 3]
    )

    target = f"/api/v1/runs/{run}/metrics?name=loss"
    both = ask(cluster, "GET", f"{target}&ranks=aggregate&rank=1")
    assert both.status == 400 and "leave out `rank`" in both.error()
    unknown = ask(cluster, "GET", f"{target}&ranks=some")
    assert unknown.status == 400 and "aggregate" in unknown.error()
    [one] = ask(cluster, "GET", f"{target}&rank=1&pixels=1&epoch=1").json()["series"]
    assert one["total"] == 3 and one["statistic"] is None
    assert ask(cluster, "GET", f"{target}&epoch=2").json()["series"] == []
