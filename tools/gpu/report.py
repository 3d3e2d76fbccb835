"""The outcome of each item, the line that shows it, and the report that is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
LOG_LINES = 40  # of a failed item, in the report
PASSED, FAILED, SKIPPED = "pass", "FAIL", "skipped"


@dataclass
class Seen:
    """The result of an item that passed."""

    text: str  # in one line, with the numbers
    numbers: dict[str, float] = field(default_factory=dict)


class Skipped(Exception):
    """The item cannot run here; the message says why."""


@dataclass
class Outcome:
    name: str
    outcome: str  # one of the three above
    saw: str
    numbers: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)  # the end of a failed item's output

    def line(self) -> str:
        return f"{self.outcome:<8} {self.name:<22} {self.saw}  {self.seconds:.1f} s"


def count(outcomes: list[Outcome], kind: str) -> int:
    return sum(each.outcome == kind for each in outcomes)


def summary(outcomes: list[Outcome], seconds: float) -> str:
    counts = (
        f"{count(outcomes, PASSED)} passed, {count(outcomes, FAILED)} failed, "
        f"{count(outcomes, SKIPPED)} skipped"
    )
    return f"{counts} in {seconds:.0f} s"


def write_report(
    path: Path, machine: dict[str, Any], device: str, outcomes: list[Outcome], seconds: float
) -> None:
    report = {
        "format": FORMAT,
        "device": device,
        "machine": machine,
        "items": [asdict(each) for each in outcomes],
        "passed": count(outcomes, PASSED),
        "failed": count(outcomes, FAILED),
        "skipped": count(outcomes, SKIPPED),
        "seconds": round(seconds, 1),
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
