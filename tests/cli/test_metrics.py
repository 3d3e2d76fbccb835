"""Metrics of several ranks as typed: the band, the rank that stands out, and each rank."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.api.calls import ask
from tests.cli.test_bad_input import refused

from tests.conftest import Cluster

PROGRAM = """
import lockstep, os
rank = int(os.environ["RANK"])
for step in range(1, 4):
    lockstep.log({"loss": 9.0 * step if rank == 1 else 1.0}, step=step)
if rank == 1:
    lockstep.log({"accuracy": 0.25}, step=3)
"""


def test_a_metric_of_several_ranks_is_a_band_that_names_the_outlier(cluster: Cluster) -> None:
    run = cluster.submit("-g", "2", "--", "python", "-c", PROGRAM)
    assert cluster.ended(run)["state"] == "succeeded"

    header, accuracy, loss = cluster.ok("metrics", run).splitlines()
    assert header.split()[:3] == ["METRIC", "RANK", "POINTS"]
    assert accuracy.split() == ["accuracy", "1", "1", "0.25", "0.25", "0.25", "0.25", "3"]
    assert loss.split()[:3] == ["loss", "all", "3"]
    assert "1 (rank 0)" in loss and "27 (rank 1)" in loss

    each = cluster.ok("metrics", run, "--each-rank", "--name", "loss").splitlines()[1:]
    assert [line.split()[:2] for line in each] == [["loss", str(rank)] for rank in range(2)]
    alone = cluster.ok("metrics", run, "--rank", "1").splitlines()[1:]
    assert [line.split()[:2] for line in alone] == [["accuracy", "1"], ["loss", "1"]]

    drawn = cluster.ok("plot", run)
    for name in ("loss mean", "loss least, mostly rank 0", "loss greatest, mostly rank 1"):
        assert name in drawn
    assert "mostly" not in cluster.ok("plot", run, "--rank", "1")
    assert "mostly" not in cluster.ok("plot", run, "accuracy")

    found = json.loads(cluster.ok("metrics", run, "--name", "loss", "--json"))["series"]
    assert [one["statistic"] for one in found] == ["mean", "min", "max", "spread"]
    assert found[2]["point_ranks"] == [1, 1, 1]
    assert [point["value"] for point in found[2]["points"]] == [9, 18, 27]
    assert [point["value"] for point in found[0]["points"]] == pytest.approx([5, 9.5, 14])

    target = f"/api/v1/runs/{run}/metrics?name=loss"
    both = ask(cluster, "GET", f"{target}&ranks=aggregate&rank=1")
    assert both.status == 400 and "leave out `rank`" in both.error()
    unknown = ask(cluster, "GET", f"{target}&ranks=some")
    assert unknown.status == 400 and "aggregate" in unknown.error()
    [one] = ask(cluster, "GET", f"{target}&rank=1&pixels=1&epoch=1").json()["series"]
    assert one["total"] == 3 and one["statistic"] is None
    assert ask(cluster, "GET", f"{target}&epoch=2").json()["series"] == []


def test_runs_are_sorted_by_a_metric_and_listed_page_by_page(cluster: Cluster) -> None:
    program = (
        "import lockstep, sys\n"
        "for i, v in enumerate(sys.argv[1:]): lockstep.log({'loss': float(v)}, step=i)"
    )
    logged = [("3", "1"), ("5", "2"), ("0.5", "4")]
    runs = [cluster.submit("--", "python", "-c", program, *values) for values in logged]
    silent = cluster.submit("--", "true")
    for run in (*runs, silent):
        assert cluster.ended(run)["state"] == "succeeded"
    first, second, third = runs

    def sorted_by(*words: str) -> tuple[list[str], list[float]]:
        found = json.loads(cluster.ok("ps", "--sort", "loss", "--json", *words))
        return [run["id"] for run in found["runs"]], found["values"]

    assert sorted_by() == ([first, second, third], [1, 2, 4])
    assert sorted_by("--descending") == ([third, second, first], [4, 2, 1])
    assert sorted_by("--by", "min") == ([third, first, second], [0.5, 1, 2])
    assert sorted_by("--by", "max", "--limit", "2") == ([first, third], [3, 4])
    cluster.ok("tag", second, "good=yes")
    assert sorted_by("--tag", "good") == ([second], [2])
    assert sorted_by("--since", "1h")[0] == [first, second, third]
    header, best = cluster.ok("ps", "--sort", "loss", "--by", "min", "--limit", "1").splitlines()
    assert "loss" in header and "LOSS" not in header
    assert best.split()[0] == third and " 0.5 " in best
    assert "with the metric 'none'" in cluster.ok("ps", "--sort", "none")
    assert json.loads(cluster.ok("ps", "--json"))["values"] == []

    target, found = "/api/v1/runs?limit=2&sort=loss&descending=true", []
    page = ask(cluster, "GET", target).json()
    while page["next"]:
        found.append(page["values"])
        page = ask(cluster, "GET", f"{target}&after={quote(page['next'], safe='')}").json()
    assert [*found, page["values"]] == [[4, 2], [1]]
    wrong = ask(cluster, "GET", f"{target}&after=x/demo/1")
    assert wrong.status == 400 and "no `next`" in wrong.error()
    alone = ask(cluster, "GET", "/api/v1/runs?value=min")
    assert alone.status == 400 and "sort=METRIC" in alone.error()
    until = ask(cluster, "GET", "/api/v1/runs?until=2020-01-01T00:00:00Z").json()
    assert until["runs"] == []


@pytest.mark.parametrize("words", [("--by", "min"), ("--descending",)])
def test_a_value_without_a_metric_is_refused(words: tuple[str, ...], cluster: Cluster) -> None:
    assert "--sort" in refused(cluster, "ps", *words)
