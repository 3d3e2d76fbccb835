"""The logs that the ranks themselves write; see program.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class RankLog:
    """The log of one rank of one attempt. Times are of the monotonic clock."""

    run: str
    epoch: int
    rank: int
    starts: list[dict[str, Any]] = field(default_factory=list)
    begun: dict[int, float] = field(default_factory=dict)  # step to time: perhaps reported
    done: dict[int, float] = field(default_factory=dict)  # step to time: surely reported
    repeated: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def node(self) -> int:
        return int(self.starts[0]["node"])

    @property
    def name(self) -> str:
        return f"rank {self.rank} of {self.run}.{self.epoch}"

    def last_time(self) -> float:
        return max([start["time"] for start in self.starts] + [*self.done.values()])


def read(folder: Path, project: str | None = None) -> list[RankLog]:
    """All logs, or those of one project, by run, epoch and rank."""
    pattern = "*" if project is None else f"{project}-*"
    rank_logs = (_read_file(path) for path in folder.glob(pattern))
    kept = [log for log in rank_logs if log.starts]
    return sorted(kept, key=lambda log: (log.run, log.epoch, log.rank))


def _read_file(path: Path) -> RankLog:
    run, epoch, rank = path.name.rsplit(".", 2)
    log = RankLog("/".join(run.rsplit("-", 1)), int(epoch), int(rank))
    for line in path.read_text().splitlines():
        _take(log, json.loads(line))
    return log


def _take(log: RankLog, entry: dict[str, Any]) -> None:
    if entry["kind"] == "start":
        log.starts.append(entry)
    elif entry["kind"] == "end":
        log.ended = True
    elif entry["kind"] == "begin":
        if entry["step"] in log.begun:
            log.repeated.append(entry["step"])
        log.begun[entry["step"]] = entry["time"]
    else:
        log.done[entry["step"]] = entry["time"]
