"""The platform on this machine: its map, and the metrics of a run on a device."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from gpu import nvml
from gpu.layout import PROGRAM
from gpu.report import Seen

PATIENCE = 60.0  # seconds for a command
RANK = "gpu.items.logging_rank"


class Daemon:
    """A daemon with a folder of its own, and commands to it."""

    def __init__(self, home: str) -> None:
        self._environment = {**os.environ, "LOCKSTEP_HOME": home}

    def command(self, *words: str, seconds: float = PATIENCE) -> str:
        ended = subprocess.run(
            [str(PROGRAM), *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        output = ended.stdout + ended.stderr
        assert ended.returncode == 0, f"lockstep {' '.join(words[:4])}: {output.strip()}"
        return ended.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.command(*words, "--json"))


@contextlib.contextmanager
def daemon(*serve: str) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="lockstep-gpu-") as home:
        one = Daemon(home)
        one.command("serve", "--detach", *serve)
        try:
            yield one
        finally:
            one.command("serve", "--stop")


def groups_of(value: Any) -> Iterator[list[dict[str, Any]]]:
    """The groups of devices of each island in a map."""
    if isinstance(value, dict):
        if "devices" in value:
            yield value["devices"]
        else:
            value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from groups_of(each)


def describe_this_machine(kind: str) -> Seen:
    """`lockstep map` lists the GPUs that NVML lists, or the cores where there is no GPU."""
    with daemon() as one:
        islands = list(groups_of(one.json("map")))
    groups = [group for island in islands for group in island]
    count = sum(group["count"] for group in groups)
    kinds = {group["kind"] for group in groups}
    cards = nvml.cards()
    expected = usable(cards)
    print("NVML:", *cards, "islands:", json.dumps(islands), sep="\n")
    if not nvml.is_there():
        return Seen(f"no NVML; the map has {count} devices ({', '.join(kinds)})")
    if not expected:
        assert kinds == {"core"}, f"the map has {kinds}, and NVML lists no usable GPU"
        return Seen(f"no usable GPU; {count} cores in {len(islands)} islands")
    assert kinds == {"gpu"}, f"NVML lists {len(expected)} GPUs, and the map has {kinds}"
    found = uuids_of(groups)
    assert sorted(found) == sorted(each.uuid for each in expected), (
        f"the map has the GPUs {found}, NVML {[each.uuid for each in expected]}"
    )
    memory = {str(group["memory"]) for group in groups}
    assert "None" not in memory, "the map does not have the GPUs' memory"
    for linked in nvml.linked_islands(expected):
        uuids = {expected[number].uuid for number in linked}
        homes = [island for island in islands if uuids & uuids_of(island)]
        assert len(homes) == 1, (
            f"NVLink joins {sorted(uuids)}, and they are in {len(homes)} islands"
        )
    return Seen(f"{count} GPUs of {', '.join(sorted(memory))} in {len(islands)} islands, by UUID")


def uuids_of(groups: list[dict[str, Any]]) -> set[str]:
    return {uuid for group in groups for uuid in group["uuids"]}


def usable(cards: list[nvml.Card]) -> list[nvml.Card]:
    """As Lockstep offers them: without MIG, and those of CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    whole = [each for each in cards if not each.mig]
    if visible is None:
        return whole
    names = [name.strip() for name in visible.split(",")]
    return [
        each
        for number, each in enumerate(cards)
        if not each.mig
        and any(name == str(number) or (name and each.uuid.startswith(name)) for name in names)
    ]


def collect_metrics_of_a_run(kind: str) -> Seen:
    """A rank of `lockstep run` logs tensors of its device; the daemon has the numbers."""
    with daemon() as one:
        run = json.loads(
            one.command("run", "--json", "--timeout", "2m", "--", sys.executable, "-m", RANK, kind)
        )["id"]
        one.command("watch", run, seconds=110.0)
        view = one.json("show", run)
        logged = one.command("logs", run)
        assert view["state"] == "succeeded", f"{view['reason']}: {logged[-500:]}"
        series = one.json("metrics", run, "--name", "loss")["series"]
    points = [point["value"] for point in series[0]["points"]] if series else []
    assert points == [0.5 * step for step in range(1, 6)], f"the daemon has {points}"
    return Seen(f"5 losses of {kind} tensors; {logged.strip().splitlines()[-1]}")
