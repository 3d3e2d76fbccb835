"""Measures message and call costs between hosts as users do, and reads the resulting choices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .between_hosts import SETPRIV, Layout
from .contestant import Failed

PROBE_SECONDS = 300.0
# The file format needs a host; the measurements count for all.
MAP = "pods: [{leaves: [{hosts: [{id: first, islands: [{devices: [{kind: core}]}]}]}]}]\n"


@dataclass(frozen=True)
class Prediction:
    """For one size: the seconds of each plan that fits, and the chosen plan."""

    seconds: dict[str, float]
    chosen: str


@dataclass(frozen=True)
class Costs:
    """A map with measurements, and the form in which agents pass it to ranks."""

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
    """Measured by `lockstep probe --write MAP`, as the ranks of all hosts."""
    file = folder / "map.yaml"
    file.write_text(MAP)
    words = _as_ranks(layout, build, folder, "probe", "--words", "--write", str(file))
    return Costs(file, words)


def tune(layout: Layout, costs: Costs, sizes: list[int], build: Path, folder: Path) -> Costs:
    """These costs, with the results of `lockstep tune --write MAP` for these all-reduce sizes."""
    file = folder / "tuned.yaml"
    shutil.copy(costs.map, file)
    sizes_in_words = ",".join(map(str, sizes))
    command = ["tune", "--operation", "all_reduce", "--bytes", sizes_in_words, "--words"]
    words = _as_ranks(
        layout, build, folder, *command, "--write", str(file), LOCKSTEP_COSTS=costs.words
    )
    return Costs(file, words)


def _as_ranks(layout: Layout, build: Path, folder: Path, *words: str, **settings: str) -> str:
    """The output of rank 0 when all hosts' ranks run a command of ours."""
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


def predicted(layout: Layout, costs: Costs, sizes: list[int], build: Path) -> list[Prediction]:
    """The predictions of `lockstep tune` for each size of an all-reduce."""
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


def _predicted(plans: list[dict[str, Any]]) -> Prediction:
    [chosen] = (plan["plan"] for plan in plans if plan["chosen"])
    return Prediction({plan["plan"]: plan["predicted_us"] / 1e6 for plan in plans}, chosen)


def _host(layout: Layout, rank: int) -> Any:
    return layout.network.hosts[layout.host_of(rank)]


def _environment(layout: Layout, rank: int, folder: Path) -> dict[str, str]:
    """The environment of a rank as a launcher sets it, with a host id of its own."""
    return {
        "PATH": os.environ["PATH"],
        "RANK": str(rank),
        "WORLD_SIZE": str(layout.ranks),
        "MASTER_ADDR": layout.network.hosts[0].address,
        "MASTER_PORT": "29500",
        "LOCKSTEP_HOST_ID": _host(layout, rank).address,
        "LOCKSTEP_MEETING_FOLDER": str(folder),
    }
