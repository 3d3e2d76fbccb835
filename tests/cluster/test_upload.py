"""`lockstep run --upload`: the working folder goes to the daemon, and from there to each node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cluster.hosts import Joined

from tests.conftest import Cluster

LIST = "find . -mindepth 1 | sort; cat train.txt; cat link"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    (made / "sub").mkdir(parents=True)
    (made / "train.txt").write_text("train\n")
    (made / "sub" / "go.sh").write_text("#!/bin/sh\necho started in $PWD\n")
    (made / "sub" / "go.sh").chmod(0o755)
    (made / "link").symlink_to("sub/data")
    (made / "sub" / "data").write_text("data\n")
    (made / "outside").symlink_to("/etc/hostname")
    (made / "ignored.bin").write_bytes(b"0" * 100_000)
    return made


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def checkout(folder: Path) -> None:
    git(folder, "init")
    (folder / ".gitignore").write_text("*.bin\n")
    git(folder, "add", "train.txt", ".gitignore")
    git(folder, "commit", "-m", "begin")


def test_ranks_start_in_a_copy_of_what_git_does_not_ignore(cluster: Cluster, folder: Path) -> None:
    checkout(folder)
    sent = cluster.command("run", "--upload", "--", "sh", "-c", LIST, cwd=folder)
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout.splitlines() == [
        "./.gitignore",
        "./link",
        "./sub",
        "./sub/data",
        "./sub/go.sh",
        "./train.txt",
        "train",
        "data",
    ]
    assert "leaves out: outside is a link out of the folder" in sent.stderr
    assert "sent 4 of 5 files" in sent.stderr
    assert "/code, uploaded" in cluster.ok("show", "1")

    (folder / "train.txt").write_text("changed\n")
    again = cluster.command("run", "--upload", "--json", "--", "sub/go.sh", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "sent 1 of 5 files (8 B of" in again.stderr
    run = json.loads(again.stdout)["id"]
    assert cluster.ended(run)["state"] == "succeeded"
    (line,) = cluster.logs(run)
    assert line.endswith("node-0/upload")


def test_outside_of_git_all_files_are_sent(cluster: Cluster, folder: Path) -> None:
    sent = cluster.command("run", "--upload", "--", "sh", "-c", "wc -c < ignored.bin", cwd=folder)
    assert sent.stdout.strip() == "100000", sent.stderr


def test_a_folder_that_is_too_large_is_refused_before_it_is_sent(
    idle: Cluster, folder: Path
) -> None:
    idle.serve("1x1", "--set", "upload_limit=50KiB")
    refused = idle.command("run", "--upload", "--", "true", cwd=folder)
    assert refused.returncode == 2
    assert "ignored.bin (97.7 KiB)" in refused.stderr and "upload_limit" in refused.stderr
    assert not (idle.home / "uploads").exists()


def test_nothing_is_sent_for_a_run_that_is_refused(cluster: Cluster, folder: Path) -> None:
    refused = cluster.command(
        "run", "--upload", "--nodes", "9", "--", "python3", "train.py", cwd=folder
    )
    assert refused.returncode != 0 and "needs 9 hosts" in refused.stderr, refused.stderr
    assert "sent" not in refused.stderr
    assert not list(cluster.home.glob("uploads/files/*"))
    # The same submission again is none that is refused: the run exists.
    words = ("run", "--detach", "--upload", "--request-id", "once", "--checkpoint-folder")
    for _ in range(2):
        again = cluster.ok(*words, str(folder / "saved"), "--", "sleep", "600", cwd=folder)
        assert again.strip().endswith("/1")


def test_each_node_and_attempt_gets_a_fresh_copy(cluster: Cluster, folder: Path) -> None:
    script = "test ! -e mark || exit 0; touch mark; echo $GROUP_RANK; exit $((2 - LOCKSTEP_EPOCH))"
    options = ("--upload", "-n", "2", "--retries", "1")
    run = cluster.ok("run", "-d", *options, "--", "sh", "-c", script, cwd=folder).strip()
    view = cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 2
    assert sorted(cluster.logs(run)) == ["[0] 0", "[0] 0", "[1] 1", "[1] 1"]


def test_a_lost_file_ends_the_run_with_the_host_and_what_to_do(
    cluster: Cluster, folder: Path
) -> None:
    blocker = cluster.submit("-n", "2", "-g", "2", "--", "sleep", "600")
    cluster.running_ranks(blocker)
    run = cluster.ok("run", "-d", "--upload", "--", "true", cwd=folder).strip()
    shutil.rmtree(cluster.home / "uploads" / "files")
    cluster.ok("stop", blocker)
    view = cluster.ended(run)
    assert view["state"] == "failed" and len(view["attempts"]) == 1
    assert "on host " in view["reason"] and "the daemon has lost the file" in view["reason"]
    assert "--upload" in view["reason"]


def test_hosts_without_a_shared_folder_get_the_files(joined: Joined, folder: Path) -> None:
    cluster = joined.cluster
    script = "echo $LOCKSTEP_HOST_ID; cat link; cd sub; ./go.sh"
    options = ("--upload", "--nodes", "2", "--devices", "1")
    run = cluster.ok("run", "-d", *options, "--", "sh", "-c", script, cwd=folder).strip()
    view = cluster.ended(run)
    assert view["state"] == "succeeded", view["reason"]
    lines = cluster.logs(run)
    assert "[0] a" in lines and "[1] b" in lines and "[0] data" in lines and "[1] data" in lines
    for name, service in zip("ab", joined.services, strict=True):
        started = [line for line in lines if f"started in {service.folder}/runs/" in line]
        assert len(started) == 1, (name, lines)
    cluster.ok("rm", run, "--yes")
