"""The daemon's store is moved away or put back from an older copy, under runs that go on:
docs/design/store.md, "Identity of a store"."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from tests.conftest import Cluster, is_alive, wait_until


def store_files(home: Path) -> list[Path]:
    return sorted(home.glob("lockstep.db*"))


def move_away(cluster: Cluster, folder: Path) -> None:
    cluster.ok("serve", "--stop")
    folder.mkdir()
    for file in store_files(cluster.home):
        shutil.move(file, folder)


def waiting_for(gate: Path, *before: str) -> list[str]:
    """A program that reports its start, and continues once the gate is there."""
    words = "; ".join((*before, f"until test -e '{gate}'; do sleep 0.05; done", "echo after"))
    return ["--", "sh", "-c", words]


def orphans(cluster: Cluster) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(cluster.ok("orphan", "ls", "--json"))["orphans"]
    return listed


def test_a_new_store_gives_no_number_and_no_checkpoint_of_the_old_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    save = "test -e $LOCKSTEP_CHECKPOINT_DIR/w && echo found; echo A > $LOCKSTEP_CHECKPOINT_DIR/w"
    first = cluster.submit("--project", "demo", "--", "sh", "-c", save)
    cluster.ended(first)
    move_away(cluster, tmp_path / "old")
    cluster.serve()
    second = cluster.submit("--project", "demo", "--", "sh", "-c", save + "; echo $LOCKSTEP_STORE")
    view = cluster.ended(second)
    assert (first, second) == ("demo/1", "demo/2")
    assert cluster.logs(second) == [view["generation"]]


def test_a_run_of_another_store_goes_on_until_an_operator_ends_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    run = cluster.submit("-g", "2", "--project", "act", *waiting_for(tmp_path / "never"))
    ranks = [rank["pid"] for rank in cluster.running_ranks(run)]
    move_away(cluster, tmp_path / "old")
    told = cluster.command("serve", "--hosts", "2x2", "--detach")
    line = "a run of another store is active here: act/1 (2 devices on"
    assert line in told.stderr
    for words in (["ps"], ["queue"], ["version"]):
        assert line in cluster.command(*words).stderr
    assert line in (cluster.home / "daemon.log").read_text()
    # It holds its devices.
    waits = cluster.submit("-n", "2", "-g", "2", "--", "true")
    assert "waits for orphan act/1" in cluster.show(waits)["reason"]
    assert all(is_alive(pid) for pid in ranks)
    assert [(one["run"], one["state"]) for one in orphans(cluster)] == [("act/1", "running")]
    cluster.ok("orphan", "stop", "act/1")
    assert cluster.ended(waits)["state"] == "succeeded"
    assert not any(is_alive(pid) for pid in ranks)
    assert orphans(cluster) == []
    assert "go on" not in cluster.command("ps").stderr


def test_a_run_of_another_store_is_adopted_with_all_that_it_has_said(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit("--project", "act", "--name", "mine", *waiting_for(gate))
    cluster.running_ranks(run)
    move_away(cluster, tmp_path / "old")
    cluster.serve()
    gate.touch()  # it ends before it is adopted
    wait_until("it has ended", lambda: [one["state"] for one in orphans(cluster)] == ["ended"])
    cluster.ok("orphan", "adopt", "act/1")
    view = cluster.ended("act/1")
    assert view["state"] == "succeeded" and view["name"] == "mine"
    assert cluster.logs("act/1") == ["after"]
    assert cluster.submit("--project", "act", "--", "true") == "act/2"


def test_an_older_copy_knows_its_runs_and_adopts_newer_ones(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    old = cluster.submit("--project", "old", *waiting_for(gate))
    cluster.running_ranks(old)
    cluster.ok("serve", "--stop")
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in store_files(cluster.home):
        shutil.copy(file, copy)
    cluster.serve()
    new = cluster.submit("--project", "new", *waiting_for(gate))
    cluster.running_ranks(new)
    move_away(cluster, tmp_path / "newest")
    for file in copy.iterdir():
        shutil.copy(file, cluster.home)
    told = cluster.command("serve", "--hosts", "2x2", "--detach")
    assert "the store is an older copy: 2 runs and attempts were made since" in told.stderr
    assert [one["run"] for one in orphans(cluster)] == [new]
    cluster.ok("orphan", "adopt", new)
    gate.touch()
    for run in (old, new):
        view = cluster.ended(run)
        assert view["state"] == "succeeded" and len(view["attempts"]) == 1
        assert cluster.logs(run) == ["after"]


def test_an_agent_of_another_store_never_becomes_a_new_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit("--project", "act", *waiting_for(gate))
    cluster.running_ranks(run)
    agent = cluster.show(run)["attempts"][0]["nodes"][0]["agent_pid"]
    os.kill(agent, signal.SIGSTOP)
    move_away(cluster, tmp_path / "old")
    (cluster.home / "stores.json").unlink()  # the worst case: the number is given again
    cluster.serve()
    again = cluster.submit("--project", "act", "--", "echo", "new")
    assert again == run
    os.kill(agent, signal.SIGCONT)
    # A run of the same name exists already, so it waits until the orphan is gone.
    assert "`lockstep orphan stop act/1` ends it" in wait_until(
        "it says why it waits",
        lambda: "orphan" in (why := cluster.show(again)["reason"]) and why,
    )
    assert "another run of that name" in cluster.command("orphan", "adopt", run).stderr
    cluster.ok("orphan", "stop", run)
    assert cluster.ended(again)["state"] == "succeeded"
    assert cluster.logs(again) == ["new"]


# --- The whole folder ---


def at(home: Path, like: Cluster) -> Cluster:
    other = Cluster(home)
    other.environment["PATH"] = like.environment["PATH"]
    return other


def test_the_agents_of_a_folder_that_was_renamed_find_their_daemon_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit("--project", "act", *waiting_for(gate, "echo before"))
    cluster.running_ranks(run)
    cluster.ok("serve", "--stop")
    new_home, old_home = tmp_path / "renamed", cluster.home
    old_home.rename(new_home)
    stranger = at(old_home, cluster)  # takes the path, with a store and a key of its own
    stranger.serve("1x1")
    cluster.home = new_home
    cluster.environment["LOCKSTEP_HOME"] = str(new_home)
    cluster.serve()
    assert stranger.command("orphan", "ls").stdout.count("act/1") == 0
    gate.touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
    assert cluster.logs(run) == ["before", "after"]
    stranger.close()


def test_a_copy_of_the_folder_is_refused_while_the_original_is_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run = cluster.submit("--project", "act", *waiting_for(gate))
    ranks = [rank["pid"] for rank in cluster.running_ranks(run)]
    cluster.ok("serve", "--stop")
    copy = at(tmp_path / "copy", cluster)
    shutil.copytree(cluster.home, copy.home)
    refused = copy.command("serve", "--hosts", "2x2", "--detach")
    assert refused.returncode != 0
    assert f"{copy.home} is a copy of {cluster.home}, to which the runs belong" in refused.stderr
    assert copy.command("ps").returncode != 0
    assert all(is_alive(pid) for pid in ranks)
    cluster.serve()
    gate.touch()
    view = cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1


def test_a_folder_that_was_put_back_from_a_copy_gives_no_name_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.ended(cluster.submit("--project", "demo", "--", "true"))
    cluster.ok("serve", "--stop")
    shutil.copytree(cluster.home, tmp_path / "backup")
    cluster.serve()
    lost = cluster.ended(cluster.submit("--project", "demo", "--", "true"))
    cluster.ok("serve", "--stop")
    shutil.rmtree(cluster.home)
    shutil.copytree(tmp_path / "backup", tmp_path / "restored")
    shutil.rmtree(tmp_path / "backup")
    (tmp_path / "restored").rename(cluster.home)
    cluster.serve()
    new = cluster.ended(cluster.submit("--project", "demo", "--", "true"))
    assert new["generation"] != lost["generation"]
    assert cluster.show("demo/1")["state"] == "succeeded"
