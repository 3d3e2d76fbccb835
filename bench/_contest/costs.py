"""What messages and calls cost between hosts, measured as users do, and what is chosen by that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .contestant import Failed
from .wired import SETPRIV, Layout

PROBE_SECONDS = 300.0
# A file needs a host to be one; what was measured counts for all.
MAP = "pods: [{leaves: [{hosts: [{id: first, islands: [{devices: [{kind: core}]}]}]}]}]\n"


@dataclass(frozen=True)
class Predicted:
    """Of one size: seconds by each plan that fits, and the one that is chosen."""

    seconds: dict[str, float]
    chosen: str


@dataclass(frozen=True)
class Costs:
    """A map with what was measured, and the same as agents hand it to ranks."""

    map: Path
    words: str

    def text(self) -> str:
        """The constants, for people."""
        numbers = [float(word) for word in self.words.partition(";")[0].split()]
        levels = (("within a host", numbers[0:3]), ("between hosts", numbers[3:6]))
        said = [
            f"{name} {1e6 * latency:.1f} us, {1e6 * overhead:.1f} us of it overhead, "
            f"{8e-9 / max(per_byte, 1e-15):.3g} Gbit/s"
            for name, (latency, overhead, per_byte) in levels
        ]
        return "; ".join([*said, f"additions {1e-9 / max(numbers[6], 1e-15):.3g} GB/s"])


def probe(layout: Layout, build: Path, folder: Path) -> Costs:
    """By `lockstep probe --write MAP`, as the ranks of all hosts."""
    file = folder / "map.yaml"
    file.write_text(MAP)
    words = _as_ranks(layout, build, folder, "probe", "--words", "--write", str(file))
    return Costs(file, words)


def tune(layout: Layout, costs: Costs, sizes: list[int], build: Path, folder: Path) -> Costs:
    """These, and what `lockstep tune --write MAP` finds for all-reduces of these sizes."""
    file = folder / "tuned.yaml"
    shutil.copy(costs.map, file)
    sizes_in_words = ",".join(map(str, sizes))
    command = ["tune", "--operation", "all_reduce", "--bytes", sizes_in_words, "--words"]
    words = _as_ranks(
        layout, build, folder, *command, "--write", str(file), LOCKSTEP_COSTS=costs.words
    )
    return Costs(file, words)


def _as_ranks(layout: Layout, build: Path, folder: Path, *words: str, **settings: str) -> str:
    """What rank 0 of a command of ours prints that the ranks of all hosts are."""
    command = [*SETPRIV, str(build / "bin" / "lockstep"), *words]
    ranks = [
        subprocess.Popen(
            _host(layout, rank).within(*command),
            env=_environment(layout, rank, folder) | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(layout.ranks)
    ]
    deadline = time.monotonic() + PROBE_SECONDS
    try:
        said = [rank.communicate(timeout=deadline - time.monotonic()) for rank in ranks]
    except subprocess.TimeoutExpired:
        raise Failed(f"lockstep {words[0]} took more than {PROBE_SECONDS:.0f} s") from None
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        raise Failed(f"lockstep {words[0]} failed: {said}")
    return said[0][0].strip()


def predicted(layout: Layout, costs: Costs, sizes: list[int], build: Path) -> list[Predicted]:
    """By `lockstep tune`, of each size of an all-reduce."""
    shape = ["--hosts", str(layout.hosts), "--ranks", str(layout.ranks_a_host)]
    words = ["--bytes", ",".join(map(str, sizes)), "--map", str(costs.map), "--json"]
    shown = subprocess.run(
        [str(build / "bin" / "lockstep"), "tune", *shape, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROBE_SECONDS,
    )
    if shown.returncode != 0:
        raise Failed(f"lockstep tune failed: {shown.stderr}")
    return [_predicted(size["plans"]) for size in json.loads(shown.stdout)["sizes"]]


def _predicted(plans: list[dict[str, Any]]) -> Predicted:
    [chosen] = (plan["plan"] for plan in plans if plan["chosen"])
    return Predicted({plan["plan"]: plan["predicted_us"] / 1e6 for plan in plans}, chosen)


def _host(layout: Layout, rank: int) -> Any:
    return layout.network.hosts[layout.host_of(rank)]


def _environment(layout: Layout, rank: int, folder: Path) -> dict[str, str]:
    """As a launcher has it, on a host that is told apart by its id."""
    return {
        "PATH": os.environ["PATH"],
        "RANK": str(rank),
        "WORLD_SIZE": str(layout.ranks),
        "MASTER_ADDR": layout.network.hosts[0].address,
        "MASTER_PORT": "29500",
        "LOCKSTEP_HOST_ID": _host(layout, rank).address,
        "LOCKSTEP_MEETING_FOLDER": str(folder),
    }
