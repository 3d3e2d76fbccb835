"""Checkpoints of a run that goes on on other hosts, without a folder that they share."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import struct
from pathlib import Path

from tests.cluster.hosts import Joined, Service

from tests.conftest import BUILD, wait_until

STEP = "step-00000000"
# The first attempt makes a checkpoint and fails once the test says so; the next one reads it.
SCRIPT = """
lockstep={place}/lockstep
if [ $LOCKSTEP_EPOCH = 1 ]; then
  if [ $RANK = 0 ]; then
    cd $LOCKSTEP_CHECKPOINT_DIR
    $lockstep checkpoint import {place}/model.safetensors --to new || exit 3
    mv new/{step} {step}
    {more}
    echo saved
  fi
  until [ -e {place}/go ]; do sleep 0.05; done
  exit 1
fi
$lockstep checkpoint verify $LOCKSTEP_CHECKPOINT_DIR/{step} && echo verified on $LOCKSTEP_HOST_ID
"""
REPORT_STEP_300 = """python3 -c '
import json, os, socket
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["LOCKSTEP_REPORT"])
path = os.environ["LOCKSTEP_CHECKPOINT_DIR"] + "/step-00000300"
words = dict(kind="checkpoint", step=300, path=path)
agent.sendall(json.dumps(words).encode() + bytes([10]))'"""
REPORT_ELSEWHERE = REPORT_STEP_300.replace('os.environ["LOCKSTEP_CHECKPOINT_DIR"]', '"/mnt"')


def start(joined: Joined, place: Path, nodes: int, more: str = ":") -> str:
    """A run whose first attempt has saved."""
    values = struct.pack("<1000f", *range(1000))
    tensor = {"dtype": "F32", "shape": [1000], "data_offsets": [0, len(values)]}
    header = json.dumps({"w": tensor}).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)
    script = SCRIPT.format(place=place, step=STEP, more=more)
    options = ("--retries", "1", "--nodes", str(nodes), "--devices", "1")
    cluster = joined.cluster
    run = cluster.ok("run", "-d", *options, "--", "sh", "-c", script, cwd="/").strip()
    wait_until("it is saved", lambda: any("saved" in line for line in cluster.logs(run)))
    return run


class Digest(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


def set_step(manifest: Path, step: int) -> None:
    """Change the step 0 of a manifest, which begins with the XXH3 of what follows."""
    rest = re.sub('^{"xxh3":"[^"]*",', "", manifest.read_text()).replace(
        '"step":0', f'"step":{step}'
    )
    digest_of = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    digest_of.restype = Digest
    content = rest.encode()
    digest = digest_of(content, ctypes.c_size_t(len(content)))
    manifest.write_text(f'{{"xxh3":"{digest.high:016x}{digest.low:016x}",{rest}')


def checkpoint_of(service: Service) -> Path | None:
    found = list(service.folder.glob(f"runs/*/*/*/checkpoints/{STEP}"))
    return found[0] if found else None


def test_a_checkpoint_follows_its_run_to_another_host(joined: Joined, place: Path) -> None:
    cluster = joined.cluster
    run = start(joined, place, nodes=1)
    first = cluster.show(run)["attempts"][0]["nodes"][0]["host"]
    cluster.ok("host", "drain", first)
    (place / "go").touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    second = view["attempts"][1]["nodes"][0]["host"]
    assert second != first
    assert f"verified on {second}" in "\n".join(cluster.logs(run))


def test_each_host_gets_the_files_that_only_the_other_one_has(joined: Joined, place: Path) -> None:
    cluster = joined.cluster
    run = start(joined, place, nodes=2)
    a, b = joined.services
    if checkpoint_of(a) is None:
        a, b = b, a
    whole = checkpoint_of(a)
    assert whole is not None and checkpoint_of(b) is None
    # As two nodes write it: each its own files, and both the manifest.
    (data,) = whole.glob("*.bin")
    other = next(b.folder.glob("runs/*/*/*/checkpoints")) / STEP
    other.mkdir()
    shutil.copy(whole / "manifest.json", other)
    shutil.move(data, other)
    if os.geteuid() == 0:
        for path in (other, *other.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
    (place / "go").touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    text = "\n".join(cluster.logs(run))
    assert "verified on a" in text and "verified on b" in text


def test_a_checkpoint_of_which_files_are_gone_is_named_in_the_log(
    joined: Joined, place: Path
) -> None:
    cluster = joined.cluster
    run = start(joined, place, nodes=1, more=REPORT_STEP_300)
    wait_until("it is reported", lambda: cluster.show(run)["checkpoints"])
    (place / "go").touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    words = "goes on from the checkpoint of step 0: that of step 300 is not whole"
    assert any(words in line for line in cluster.logs(run))
    assert any(words in event["what"] for event in view["events"])


def test_a_run_goes_back_behind_a_damaged_checkpoint_and_says_so(
    joined: Joined, place: Path
) -> None:
    cluster = joined.cluster
    # The first attempt makes the checkpoint of step 0, and the test that of step 1 of it.
    run = start(joined, place, nodes=1)
    host = next(service for service in joined.services if checkpoint_of(service))
    first = checkpoint_of(host)
    assert first is not None
    second = first.with_name("step-00000001")
    shutil.copytree(first, second)
    set_step(second / "manifest.json", 1)
    (data,) = second.glob("*.bin")
    data.write_bytes(bytes(len(data.read_bytes())))
    if os.geteuid() == 0:
        for path in (second, *second.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
    cluster.ok("host", "drain", host.name)
    (place / "go").touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    assert [attempt["cause"] for attempt in view["attempts"]][-2:] == ["launch_failed", "ok"]
    text = "\n".join(cluster.logs(run))
    assert "goes on from the checkpoint of step 0: that of step 1 is not whole" in text
    assert f"{data.name} is damaged on host {host.name}" in text


def test_checkpoints_in_a_folder_of_the_programs_own_choice_do_not_count(
    joined: Joined, place: Path
) -> None:
    cluster = joined.cluster
    run = start(joined, place, nodes=1, more=REPORT_ELSEWHERE)
    wait_until("it is reported", lambda: cluster.show(run)["checkpoints"])
    (place / "go").touch()
    assert cluster.ended(run)["state"] == "succeeded"
    assert not any("is not whole" in line for line in cluster.logs(run))


def test_a_training_does_not_begin_from_nothing_if_its_checkpoint_is_gone(
    joined: Joined, place: Path
) -> None:
    cluster = joined.cluster
    run = start(joined, place, nodes=1, more=REPORT_STEP_300)
    wait_until("it is reported", lambda: cluster.show(run)["checkpoints"])
    for service in joined.services:
        if (made := checkpoint_of(service)) is not None:
            shutil.rmtree(made)
    (place / "go").touch()
    wait_until("it says so", lambda: "no host has the whole" in cluster.show(run)["reason"])
    cluster.ok("stop", run)
    cluster.ended(run)


def test_a_training_on_two_hosts_goes_on_from_what_both_have_saved(
    joined: Joined, place: Path
) -> None:
    cluster = joined.cluster
    words = "".join(f"the {n % 7} ducks went out to swim, day {n % 30};\n" for n in range(2000))
    (place / "text").mkdir()
    (place / "text" / "train.txt").write_text(words)
    (place / "text" / "heldout.txt").write_text(words[:20000])
    gpt = [str(BUILD / "bin" / "gpt"), "train", "--data", str(place / "text"), "--steps", "200"]
    gpt += ["--width", "32", "--layers", "1", "--context", "32", "--checkpoint-every", "20"]
    run = cluster.ok("run", "-d", "-n", "2", "-g", "1", "--", *gpt, cwd="/").strip()
    wait_until("it is saved", lambda: cluster.show(run)["checkpoints"])
    os.kill(cluster.running_ranks(run)[1]["pid"], signal.SIGKILL)
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    assert [attempt["cause"] for attempt in view["attempts"]] == ["rank_lost", "ok"]
    assert any("resuming from step" in line for line in cluster.logs(run))
    assert view["checkpoints"][-1]["step"] == 200
    saved = [
        next(service.folder.glob("runs/*/*/*/checkpoints/step-00000200"))
        for service in joined.services
    ]
    files = sorted(path.name for folder in saved for path in folder.iterdir())
    assert files == ["manifest.json", "manifest.json", "rank-0000.bin", "rank-0001.bin"]
