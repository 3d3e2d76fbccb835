"""What the ranks themselves say that they did; see program.py."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Diary:
    """Of one rank of one attempt. Times are of the monotonic clock."""

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


def read(folder: Path, project: str | None = None) -> list[Diary]:
    """All, or those of one project, by run, epoch and rank."""
    pattern = "*" if project is None else f"{project}-*"
    diaries = (_read_file(path) for path in folder.glob(pattern))
    kept = [diary for diary in diaries if diary.starts]
    return sorted(kept, key=lambda diary: (diary.run, diary.epoch, diary.rank))


def _read_file(path: Path) -> Diary:
    run, epoch, rank = path.name.rsplit(".", 2)
    diary = Diary("/".join(run.rsplit("-", 1)), int(epoch), int(rank))
    for line in path.read_text().splitlines():
        _take(diary, json.loads(line))
    return diary


def _take(diary: Diary, entry: dict[str, Any]) -> None:
    if entry["kind"] == "start":
        diary.starts.append(entry)
    elif entry["kind"] == "end":
        diary.ended = True
    elif entry["kind"] == "begin":
        if entry["step"] in diary.begun:
            diary.repeated.append(entry["step"])
        diary.begun[entry["step"]] = entry["time"]
    else:
        diary.done[entry["step"]] = entry["time"]
