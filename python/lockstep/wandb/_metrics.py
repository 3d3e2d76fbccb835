"""Which step a value belongs to, and how its summary is made: wandb.define_metric."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from lockstep._run_files import warn_once

_SUMMARIES = {"min", "max", "mean", "first", "last", "best", "none"}


@dataclass(frozen=True)
class _Definition:
    name: str  # may end with *
    step_metric: str | None
    summaries: frozenset[str]


class Definitions:
    """Those of a run. The last one that matches a name counts."""

    def __init__(self) -> None:
        self._all: list[_Definition] = []
        self._steps: dict[str, float] = {}  # the last value of each step metric
        self._means: dict[str, tuple[float, int]] = {}

    def add(
        self, name: str, step_metric: str | None, summary: str | None, goal: str | None
    ) -> None:
        """
        Raises:
            ValueError: a summary or a goal that is not known.
        """
        wanted = frozenset(each.strip() for each in (summary or "").split(",") if each.strip())
        if unknown := wanted - _SUMMARIES:
            raise ValueError(
                f"define_metric: the summary {', '.join(sorted(unknown))} is not one of "
                f"{', '.join(sorted(_SUMMARIES))}"
            )
        if goal not in (None, "minimize", "maximize"):
            raise ValueError(f"define_metric: the goal is minimize or maximize, got {goal!r}")
        if "best" in wanted:
            wanted |= {"max" if goal == "maximize" else "min"}
        self._all.append(_Definition(name, step_metric, wanted))

    def steps_of(self, row: Mapping[str, Any], step: int) -> dict[str, int]:
        """The step of each value of the row: that of its step metric, else `step`."""
        for name in {each.step_metric for each in self._all} & row.keys():
            self._steps[str(name)] = float(row[str(name)])
        return {name: self._step_of(name, step) for name in row}

    def _step_of(self, name: str, step: int) -> int:
        metric = self._step_metric(name)
        if metric is None or metric not in self._steps:
            return step
        at = self._steps[metric]
        if math.isfinite(at) and at >= 0 and at == int(at):
            return int(at)
        warn_once(
            f"wandb.define_metric('{metric}')",
            f"a step is a whole number from 0, got {at:g}; the count of log() is the step",
        )
        return step

    def _step_metric(self, name: str) -> str | None:
        """A step metric is its own step where it is one."""
        if any(each.step_metric == name for each in self._all):
            return name
        found = self._definition(name, lambda each: each.step_metric is not None)
        return found.step_metric if found else None

    def _definition(self, name: str, counts: Any) -> _Definition | None:
        exact = [each for each in self._all if each.name == name and counts(each)]
        globs = [each for each in self._all if fnmatchcase(name, each.name) and counts(each)]
        found = exact or globs
        return found[-1] if found else None

    def summarize(self, name: str, value: Any, before: Any) -> Any:
        """The entry of the summary after this value; `before`: the one it had, or None."""
        found = self._definition(name, lambda each: bool(each.summaries))
        if found is None or found.summaries == {"last"}:
            return value
        if "none" in found.summaries:
            return before
        number = float(value)
        entry = dict(before) if isinstance(before, dict) else {}
        for kind in sorted(found.summaries - {"best"}):
            entry[kind] = self._reduced(kind, name, number, entry.get(kind))
        return entry

    def _reduced(self, kind: str, name: str, value: float, before: float | None) -> float:
        if kind == "mean":
            total, count = self._means.get(name, (0.0, 0))
            self._means[name] = total + value, count + 1
            return (total + value) / (count + 1)
        if kind == "last" or before is None:
            return value
        if kind == "first":
            return before
        better = operator.lt if kind == "min" else operator.gt
        return value if better(value, before) or math.isnan(before) else before
