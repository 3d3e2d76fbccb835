"""Runs torch's tests over one backend: python -m _torch_suite.run BACKEND RANKS [NAME...]

Prints a line of JSON for each test: its name, "passed", "skipped" or "failed", and the reason.
"""

import json
import sys
import unittest

from _torch_suite.suite import load


class Report(unittest.TestResult):
    """Prints each test's outcome when it ends."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._outcome, self._reason = "passed", ""

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._outcome, self._reason = "skipped", reason

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self._outcome = "failed"
        self._reason = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]

    addError = addFailure

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        outcome = {
            "test": test.id().split(".")[-1],
            "outcome": self._outcome,
            "reason": self._reason,
        }
        print(json.dumps(outcome), file=_results, flush=True)


def main(backend: str, ranks: int, names: list[str]) -> None:
    import torch
    import torch._dynamo  # torch imports it late: once here is better than once in every rank

    torch.set_num_threads(1)  # a parent that used threads cannot be forked safely
    if backend == "lockstep":
        from lockstep._compiled import compiled

        compiled()
    tests = load(backend, ranks)
    for name in names or unittest.TestLoader().getTestCaseNames(tests):
        tests(name).run(Report())


if __name__ == "__main__":
    # The tests print too.
    _results = sys.stdout
    sys.stdout = sys.stderr
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
