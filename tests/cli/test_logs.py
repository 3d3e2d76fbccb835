"""The lines of a run: searched, masked, and the error of the rank that failed first."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conftest import Cluster

VALUE = "correct-horse-battery-staple"
FAILS = """
import os, sys, time
if os.environ["RANK"] == "1":
    raise ValueError("the loss is not finite")
time.sleep(600)
"""


def test_lines_are_searched_by_pattern_rank_and_context(cluster: Cluster) -> None:
    program = "for i in 1 2 3 4 5; do echo line $i of $RANK; done"
    run = cluster.submit("-g", "2", "--", "sh", "-c", program)
    assert cluster.ended(run)["state"] == "succeeded"
    assert cluster.ok("logs", run, "--grep", "line [24]", "--rank", "1").splitlines() == [
        "line 2 of 1",
        "line 4 of 1",
    ]
    words = ("logs", run, "--grep", "LINE 3", "-i", "--context", "1", "--rank", "0")
    assert cluster.ok(*words).splitlines() == ["line 2 of 0", "line 3 of 0", "line 4 of 0"]
    assert "\x1b" not in cluster.ok(*words), "colour only on terminals"
    found = [json.loads(line) for line in cluster.ok(*words, "--json").splitlines()]
    assert [match["matches"] for match in found] == [False, True, False]
    assert found[1]["parts"] == [{"begin": 0, "end": 6}]


def test_a_search_without_a_match_or_with_a_bad_pattern_says_so(cluster: Cluster) -> None:
    run = cluster.submit("--", "echo", "text")
    cluster.ended(run)
    none = cluster.command("logs", run, "--grep", "absent")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "")
    bad = cluster.command("logs", run, "--grep", "a(b")
    assert bad.returncode == 2 and "missing )" in bad.stderr and bad.stderr.count("\n") == 1
    for words in (
        ("-i",),
        ("--context", "2"),
        ("--grep", "x", "-f"),
        ("--grep", "x", "--tail", "1"),
    ):
        assert cluster.command("logs", run, *words).returncode == 2, words


def test_values_of_secrets_are_masked(cluster: Cluster) -> None:
    cluster.ok("secret", "set", "api-key", "--file", "-", input=VALUE + "\n")
    run = cluster.submit("--secret", "KEY=api-key", "--", "sh", "-c", 'echo "key $KEY."')
    assert cluster.ended(run)["state"] == "succeeded"
    assert cluster.ok("logs", run).splitlines() == ["key ***."]
    for path in Path(cluster.home).rglob("rank-*.log*"):
        assert VALUE not in path.read_text()


def test_the_error_of_the_rank_that_failed_first_is_shown_first(cluster: Cluster) -> None:
    failed = cluster.command("run", "-g", "2", "--", sys.executable, "-c", FAILS)
    assert failed.returncode == 1
    assert "rank 1 failed first on host " in failed.stderr
    assert "ValueError: the loss is not finite" in failed.stderr
    run = json.loads(cluster.ok("ps", "--json"))["runs"][0]["id"]
    error = cluster.show(run)["attempts"][-1]["first_error"]
    assert (error["rank"], error["summary"]) == (1, "ValueError: the loss is not finite")
    assert error["lines"][0] == "Traceback (most recent call last):"
    shown = cluster.ok("show", run)
    assert shown.startswith("rank 1 failed first on host ")
