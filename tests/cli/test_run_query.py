"""`lockstep ps -q`: runs selected, sorted and grouped by a query line, as typed."""

from __future__ import annotations

import json

from tests.cli.test_bad_input import refused
from tests.cli.test_python_client import python

from tests.conftest import Cluster

PROGRAM = "import sys; import lockstep; lockstep.log({'loss': 1 / float(sys.argv[2])}, step=1)"


def selected(cluster: Cluster, line: str, *more: str) -> list[str]:
    listed = json.loads(cluster.ok("ps", "-q", line, "--json", *more))
    return [run["id"] for run in listed["runs"]]


def test_runs_are_selected_sorted_and_grouped_by_settings_and_metrics(cluster: Cluster) -> None:
    submit = ("--project", "query", "--", "python", "-c", PROGRAM, "--lr")
    runs = {lr: cluster.submit(*submit, lr) for lr in ("0.1", "2", "10")}
    for run in runs.values():
        assert cluster.ended(run)["state"] == "succeeded"
    cluster.ok("tag", runs["2"], "stage=baseline")

    assert selected(cluster, "project:query lr>=2 sort:-lr") == [runs["10"], runs["2"]]
    assert selected(cluster, "project:query sort:loss", "--limit", "2") == [runs["10"], runs["2"]]
    assert selected(cluster, "tag:stage=baseline lr=2 submitted>-1d") == [runs["2"]]
    assert selected(cluster, "project:query -state:succeeded") == []
    assert selected(cluster, "sort:lr lr<5", "--project", "query") == [runs["0.1"], runs["2"]]

    table = cluster.ok("ps", "-q", "project:query sort:-lr").splitlines()
    assert "lr" in table[0].split()
    assert [line.split()[0] for line in table[1:]] == [runs["10"], runs["2"], runs["0.1"]]
    groups = cluster.ok("ps", "-q", "project:query sort:-loss group:lr").splitlines()
    assert groups[0].split()[:3] == ["lr", "RUNS", "STATES"]
    assert groups[1].split()[:4] == ["0.1", "1", "1", "succeeded"]
    assert "10 " in groups[1], "1 / 0.1 is the loss"
    assert "for the query 'lr>99'" in cluster.ok("ps", "-q", "lr>99")

    found = python(
        cluster,
        "import json, lockstep\n"
        "found = lockstep.runs(query='project:query lr>0 sort:lr', limit=2)\n"
        "print(json.dumps([run.id for run in found]))",
    )
    assert found == [runs["0.1"], runs["2"]]


def test_a_line_that_cannot_be_read_is_refused_with_its_word(cluster: Cluster) -> None:
    assert "`lr<x` compares with a number, and `x` is none" in refused(cluster, "ps", "-q", "lr<x")
    assert "`tag!=a` must be `tag:KEY`" in refused(cluster, "ps", "--query", "tag!=a")
    assert "sort by a metric, a setting or one of" in refused(cluster, "ps", "-q", "sort:reason")
    assert "--query" in refused(cluster, "ps", "--sort", "loss", "-q", "gpt")
