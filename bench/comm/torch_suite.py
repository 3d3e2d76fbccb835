"""The tests of distributed operations that torch ships: how many pass over Gloo and over Lockstep.

Torch's class DistributedTest._DistTestBase, as its test_distributed_spawn.py runs it. A row for
each number of ranks counts the tests that pass; its ratio is the share of Gloo's that pass over
Lockstep too. Rows with a test's name are those whose outcomes differ. Standard error has the
reasons of those that fail. _torch_suite/suite.py says how torch's tests are
adapted to our name.
"""

import argparse
import json
import sys
from typing import Any

from _torch_suite.outcomes import Comparison, run


def rows(ranks: int, both: Comparison) -> list[dict[str, Any]]:
    head: dict[str, Any] = {"bench": "torch_suite", "ranks": ranks, "peer_name": "gloo"}
    lost = both.lost()
    passed = both.tests("passed", "passed")
    counts: dict[str, Any] = {
        "case": "passed",
        "unit": "tests",
        "ours": len(passed) + len(both.tests("skipped", "passed") + both.tests("failed", "passed")),
        "peer": len(passed) + len(lost),
        "ratio": len(passed) / max(1, len(passed) + len(lost)),
        "bar": 1,
        "skipped_over_both": len(both.tests("skipped", "skipped")),
        "failed_over_both": len(both.tests("failed", "failed")),
    }
    differing: list[dict[str, Any]] = [
        {"case": test, "unit": "", "ours": one.outcome, "peer": both.gloo[test].outcome}
        for test, one in both.ours.items()
        if one.outcome != both.gloo[test].outcome
    ]
    return [head | row for row in (counts, *differing)]


def explain(both: Comparison) -> None:
    """Why a test failed over Lockstep, on standard error."""
    for test, one in both.ours.items():
        if one.outcome == "failed":
            print(f"{test}: {one.reason}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="4,8", help="numbers of ranks; some tests need 8")
    parser.add_argument("--tests", default="", help="names of tests, with commas; default: all")
    options = parser.parse_args()
    names = [name for name in options.tests.split(",") if name]
    lost: set[str] = set()
    for ranks in map(int, options.ranks.split(",")):
        both = Comparison.of(run("gloo", ranks, names), run("lockstep", ranks, names))
        explain(both)
        for row in rows(ranks, both):
            print(json.dumps(row))
        lost |= set(both.lost())
    if lost:
        print(f"pass over Gloo only: {', '.join(sorted(lost))}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
