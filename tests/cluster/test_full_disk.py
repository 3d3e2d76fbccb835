"""A full disk: the messages, the kept data, and that work goes on once there is free space."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.small_disk import SmallDisk, small_disk

from tests.conftest import BUILD, Cluster, wait_until

GPT = str(BUILD / "bin" / "gpt")
MODEL = ["--width", "32", "--layers", "1", "--context", "32", "--evaluate-every", "1000"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", mib=16) as disk:
        yield disk


@pytest.fixture
def beside_disk(idle: Cluster, disk: SmallDisk) -> Iterator[Cluster]:
    """Its home is elsewhere; its ranks see the small disk."""
    idle.within = disk.within
    idle.serve("1x1")
    yield idle
    idle.close()
    (idle.home / "daemon.json").unlink(missing_ok=True)


@pytest.fixture
def on_disk(disk: SmallDisk) -> Iterator[Cluster]:
    """Its home, and with it the store, is on the small disk."""
    cluster = Cluster(disk.folder / "home")
    cluster.within = disk.within
    cluster.home = disk.from_outside / "home"
    cluster.serve("1x1")
    yield cluster
    disk.make_room()
    cluster.close()


def write_text(folder: Path) -> Path:
    words = "".join(f"the {n % 7} little ducks went out, day {n % 30};\n" for n in range(2000))
    folder.mkdir()
    (folder / "train.txt").write_text(words)
    (folder / "heldout.txt").write_text(words[:10000])
    return folder


def refusal(disk: SmallDisk, cluster: Cluster, run: str) -> str:
    """The line that reports a full disk for a checkpoint. Old ones are removed: their space fills
    too."""

    def refused() -> list[str]:
        disk.fill()
        return [line for line in cluster.logs(run) if "No space left on device" in line]

    return str(wait_until("a checkpoint finds no room", refused)[0])


def test_a_checkpoint_on_a_full_disk_fails_by_name_and_leaves_the_one_before_it_whole(
    beside_disk: Cluster, disk: SmallDisk, tmp_path: Path
) -> None:
    cluster = beside_disk
    folder = disk.folder / "checkpoints"
    data = write_text(tmp_path / "text")
    command = [GPT, "train", "--data", str(data), *MODEL, "--checkpoint-every", "20"]
    words = ["--checkpoint-folder", str(folder), "--", *command, "--steps"]
    run = cluster.submit(*words, "100000")
    wait_until("a checkpoint is there", lambda: cluster.show(run)["checkpoints"])
    said = refusal(disk, cluster, run)
    assert re.search(rf"saving {folder}/step-\d+: .*training continues without it", said), said
    assert cluster.show(run)["state"] == "running"
    cluster.ok("stop", run)

    kept = cluster.ended(run)["checkpoints"][-1]["step"]
    disk.make_room()
    again = cluster.submit(*words, str(kept + 20))
    assert cluster.ended(again)["state"] == "succeeded", cluster.logs(again)
    assert any(f"resuming from step {kept}" in line for line in cluster.logs(again))
    assert cluster.show(again)["checkpoints"][-1]["step"] == kept + 20


def status_of_submission(cluster: Cluster) -> int:
    spec = {"command": ["true"], "working_folder": "/", "name": "true"}
    request = urllib.request.Request(
        f"{json.loads((cluster.home / 'daemon.json').read_text())['url']}/api/v1/runs",
        data=json.dumps({"spec": spec}).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {(cluster.home / 'token').read_text().strip()}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            assert json.loads(refused.read())["error"]["message"]
            return refused.code


def test_a_store_on_a_full_disk_refuses_runs_and_takes_them_again_once_there_is_room(
    on_disk: Cluster, disk: SmallDisk
) -> None:
    cluster = on_disk
    daemon = cluster.daemon_pid()
    before = cluster.submit("--", "true")
    assert cluster.ended(before)["state"] == "succeeded"

    disk.fill()
    wait_until("submissions are refused", lambda: status_of_submission(cluster) == 507)
    refused = cluster.command("run", "--detach", "--", "true")
    assert refused.returncode != 0
    assert re.search("full|space", refused.stderr), refused.stderr
    assert cluster.show(before)["state"] == "succeeded", "what is there can still be read"
    wait_until("it is said", lambda: json.loads(cluster.ok("ps", "--json"))["problems"])
    for words in (("ps",), ("queue",), ("show", before)):
        assert cluster.ok(*words).startswith("the daemon has a problem: "), words

    disk.make_room()
    after = cluster.submit("--", "true")
    assert cluster.ended(after)["state"] == "succeeded"
    assert cluster.daemon_pid() == daemon, "the daemon was not restarted"
