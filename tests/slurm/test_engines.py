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
