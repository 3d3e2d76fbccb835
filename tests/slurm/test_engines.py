"""One daemon with the engines of this machine and of Slurm."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.conftest import SlurmCluster
from tests.slurm.testbed import HOSTS, Slurm

from tests.conftest import wait_until

HERE, SLURM = ("--constraint", "engine=local"), ("--constraint", "engine=slurm")


class BothCluster(SlurmCluster):
    """A daemon whose runs start on this machine, presented as one host, or as jobs of Slurm."""

    def start(self, *words: str) -> None:
        engines = ("--engine", "local", "--engine", "slurm", "--hosts", "1x2")
        self.ok("serve", *engines, "--shared", str(self.shared), "--detach", *words)


@pytest.fixture
def both(slurm: Slurm, tmp_path: Path) -> Iterator[BothCluster]:
    cluster = BothCluster(tmp_path, slurm)
    cluster.start()
    yield cluster
    cluster.close()


def engine_of(cluster: BothCluster, run: str) -> str:
    return str(cluster.show(run)["attempts"][-1]["engine"])


def test_runs_start_on_the_hosts_of_both_engines(both: BothCluster) -> None:
    here = both.submit(*HERE, "--", "echo", "here")
    there = both.submit("--nodes", "2", "--", "echo", "there")
    assert both.ended(here)["state"] == both.ended(there)["state"] == "succeeded"
    assert (engine_of(both, here), engine_of(both, there)) == ("local", "slurm")
    assert len(both.jobs("all")) == 1
    hosts = both.ok("host", "ls")
    assert "ENGINE" in hosts
    assert all(host in hosts for host in HOSTS)
    engines = {host["engine"] for host in json.loads(both.ok("host", "ls", "--json"))["hosts"]}
    assert engines == {"local", "slurm"}
    drawn = both.ok("map")
    assert "engine local" in drawn
    assert "engine slurm" in drawn


def test_a_run_of_this_machine_starts_and_ends_while_slurmctld_is_away(both: BothCluster) -> None:
    there = both.submit(*SLURM, "--", "sleep", "600")
    both.running_ranks(there)
    both.slurm.kill("slurmctld", signal.SIGTERM)  # it stores its state
    try:
        wait_until(
            "the hosts of Slurm are unavailable",
            lambda: "the engine slurm: slurmctld has not answered" in both.ok("host", "ls"),
        )
        waiting = both.submit(*SLURM, "--", "true")
        here = both.submit(*HERE, "--", "true")
        assert both.ended(here)["state"] == "succeeded"
        assert both.show(waiting)["state"] == "queued"
        assert "the engine slurm" in both.ok("why", waiting)
        both.kill_daemon()
        both.start()
        again = both.submit(*HERE, "--", "true")
        assert both.ended(again)["state"] == "succeeded"
    finally:
        both.slurm.start_controller()
    assert both.ended(waiting)["state"] == "succeeded"
    view = both.show(there)
    assert view["state"] == "running", view["reason"]
    assert len(view["attempts"]) == 1


@pytest.fixture
def mixed(slurm: Slurm, tmp_path: Path) -> Iterator[BothCluster]:
    """Slurm chooses the hosts of its runs, in a partition that other jobs use too."""
    cluster = BothCluster(tmp_path, slurm)
    cluster.start("--slurm-shared")
    yield cluster
    cluster.close()
    slurm.ok("scancel", "--user=root")


def occupy(slurm: Slurm) -> str:
    """A job of another user on all hosts of the partition."""
    words = ("--exclusive", "-w", "n[1-8]", "--time=30", "--output=/dev/null")
    return slurm.ok("sbatch", "--parsable", *words, "--wrap", "sleep 600").strip()


def test_runs_that_find_no_device_here_become_jobs_and_slurm_chooses_their_hosts(
    mixed: BothCluster,
) -> None:
    first = mixed.submit("--devices", "2", "--", "sleep", "600")
    mixed.running_ranks(first)
    plan = json.loads(mixed.ok("run", "--plan", "--json", "--devices", "2", "--", "true"))
    assert plan["starts"]
    assert [place["host"] for place in plan["places"]] == [""], "Slurm chooses it"
    second = mixed.submit("--devices", "2", "--", "sleep", "600")
    gang = mixed.submit("--nodes", "3", "--", "sleep", "600")
    for run in (second, gang):
        mixed.running_ranks(run)
    engines = [engine_of(mixed, run) for run in (first, second, gang)]
    assert engines == ["local", "slurm", "slurm"]
    assert len(mixed.jobs("all")) == 2
    nodes = mixed.show(gang)["attempts"][-1]["nodes"]
    wait_until(
        "the daemon knows their hosts",
        lambda: {node["host"] for node in mixed.show(gang)["attempts"][-1]["nodes"]} <= set(HOSTS),
    )
    assert len(nodes) == 3
    mixed.ok("stop", "--wait", first, gang)
    assert mixed.show(second)["state"] == "running", "a job stays one"
    here = mixed.submit("--devices", "2", "--", "true")
    assert mixed.ended(here)["state"] == "succeeded"
    assert engine_of(mixed, here) == "local"


def test_a_run_for_slurm_waits_with_its_words_and_starts_on_no_free_host_of_ours(
    mixed: BothCluster,
) -> None:
    foreign = occupy(mixed.slurm)
    there = mixed.submit(*SLURM, "--", "true")
    wait_until("it waits in Slurm", lambda: "Slurm keeps job" in mixed.ok("why", there))
    assert "waits in the queue of slurm" in mixed.ok("queue")
    here = mixed.submit("--", "true")
    assert mixed.ended(here)["state"] == "succeeded"
    assert engine_of(mixed, here) == "local"
    assert mixed.show(there)["state"] == "starting"
    mixed.slurm.ok("scancel", foreign)
    assert mixed.ended(there)["state"] == "succeeded"
    assert engine_of(mixed, there) == "slurm"


def test_a_limit_counts_the_devices_of_both_engines(mixed: BothCluster) -> None:
    mixed.ok("limits", "--project", "default", "--devices", "2")
    here = mixed.submit(*HERE, "--", "sleep", "600")
    there = mixed.submit(*SLURM, "--", "sleep", "600")
    for run in (here, there):
        mixed.running_ranks(run)
    waiting = [mixed.submit(*words, "--", "true") for words in (HERE, SLURM)]
    for run in waiting:
        assert "project default holds 2 of the 2" in mixed.ok("why", run)
    mixed.ok("stop", "--wait", here, there)
    assert all(mixed.ended(run)["state"] == "succeeded" for run in waiting)


def test_while_slurmctld_is_away_runs_start_here_and_a_full_machine_makes_them_wait(
    mixed: BothCluster,
) -> None:
    there = mixed.submit(*SLURM, "--", "sleep", "600")
    mixed.running_ranks(there)
    mixed.slurm.kill("slurmctld", signal.SIGTERM)  # it stores its state
    try:
        wait_until(
            "the hosts of Slurm are unavailable",
            lambda: "the engine slurm: slurmctld has not answered" in mixed.ok("host", "ls"),
        )
        first = mixed.submit("--devices", "2", "--", "sleep", "600")
        mixed.running_ranks(first)
        assert engine_of(mixed, first) == "local"
        second = mixed.submit("--devices", "2", "--", "true")
        reason = mixed.ok("why", second)
        assert f"waits for {first}" in reason
        assert "the engine slurm" in reason
        only = mixed.submit(*SLURM, "--", "true")
        assert "the engine slurm" in mixed.ok("why", only)
    finally:
        mixed.slurm.start_controller()
    assert [mixed.ended(run)["state"] for run in (second, only)] == ["succeeded"] * 2
    assert engine_of(mixed, second) == "slurm"
    view = mixed.show(there)
    assert view["state"] == "running", view["reason"]
    assert len(view["attempts"]) == 1


def test_without_the_option_a_restart_keeps_the_jobs_whose_hosts_slurm_chose(
    mixed: BothCluster,
) -> None:
    there = mixed.submit(*SLURM, "--", "sleep", "600")
    mixed.running_ranks(there)
    here = mixed.submit(*HERE, "--", "sleep", "600")
    mixed.running_ranks(here)
    mixed.ok("serve", "--stop")
    mixed.start()
    placed = mixed.submit(*SLURM, "--", "true")
    assert mixed.ended(placed)["state"] == "succeeded"
    mixed.ok("serve", "--stop")
    mixed.start("--slurm-shared")
    for run in (there, here):
        view = mixed.show(run)
        assert view["state"] == "running", view["reason"]
        assert len(view["attempts"]) == 1


def test_a_gang_that_no_engine_can_hold_alone_is_refused(both: BothCluster) -> None:
    nodes = str(len(HOSTS) + 1)
    done = both.command("run", "--detach", "--nodes", nodes, "--", "true")
    assert done.returncode != 0
    assert "a run stays in one pod" in done.stderr


def test_a_host_that_two_engines_have_is_refused_with_words(slurm: Slurm, tmp_path: Path) -> None:
    cluster = SlurmCluster(tmp_path, slurm)
    file = tmp_path / "map.yaml"
    host = {"id": HOSTS[0], "address": "127.0.0.1"}
    islands = [{"devices": [{"kind": "core", "count": 1}]}]
    cluster_map = {"pods": [{"leaves": [{"hosts": [{**host, "islands": islands}]}]}]}
    file.write_text(json.dumps(cluster_map))
    words = ("--engine", "local,slurm", "--shared", str(cluster.shared), "--map", str(file))
    done = cluster.command("serve", *words)
    assert done.returncode != 0
    assert f"the engines local and slurm both have a host '{HOSTS[0]}'" in done.stderr
