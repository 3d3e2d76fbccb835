"""Host services of this machine that join a daemon: orders, reports, and the files of nodes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.cluster.hosts import Joined, agents_of

from tests.conftest import Cluster, is_alive, wait_until


def test_hosts_join_take_a_run_and_clean_up_after_it(joined: Joined) -> None:
    cluster = joined.cluster
    assert "pod left" in cluster.ok("map")
    run = joined.submit("echo rank $RANK on $LOCKSTEP_HOST_ID")
    assert cluster.ended(run)["state"] == "succeeded"
    assert sorted(cluster.logs(run)) == ["[0] rank 0 on a", "[1] rank 1 on b"]
    for service in joined.services:
        nodes = [path.parent for path in service.folder.glob("runs/*/*/*/attempt-1/*/agent.lock")]
        assert len(nodes) == 1
        wait_until("it is clean", lambda n=nodes[0]: not (n / "launch.json").exists())  # type: ignore[misc]
        assert not (nodes[0] / "spool").exists() and not (nodes[0] / "secret").exists()
    assert not (cluster.home / "runs").exists()


def test_a_service_that_ends_or_is_killed_leaves_its_nodes_and_finds_them_again(
    joined: Joined, place: Path
) -> None:
    done = place / "done"
    run = joined.submit(f"until [ -e {done} ]; do sleep 0.05; done; echo ended")
    joined.cluster.running_ranks(run)
    first, second = joined.services
    assert first.end() == 0 and "agents and ranks go on" in first.log()
    second.end(signal.SIGKILL)
    wait_until(
        "both are silent", lambda: all("not called" in why for why in joined.hosts().values())
    )
    for service in joined.services:
        service.start()
    joined.await_open()
    done.touch()
    view = joined.cluster.ended(run)
    assert view["state"] == "succeeded" and len(view["attempts"]) == 1
    assert sorted(joined.cluster.logs(run)) == ["[0] ended", "[1] ended"]


def test_the_lines_of_a_killed_agent_reach_the_daemon(joined: Joined) -> None:
    cluster = joined.cluster
    run = joined.submit("echo before; sleep 600")
    ranks = cluster.running_ranks(run)
    wait_until("the lines are there", lambda: len(cluster.logs(run)) == 2)
    pid = cluster.daemon_pid()
    os.kill(pid, signal.SIGSTOP)  # it takes no items
    for rank in ranks:
        os.kill(rank["pid"], signal.SIGKILL)
    for agent in agents_of(joined):
        os.kill(agent, signal.SIGKILL)
        wait_until("it is dead", lambda a=agent: not is_alive(a))  # type: ignore[misc]
    os.kill(pid, signal.SIGCONT)
    cluster.ok("stop", run)
    cluster.ended(run)
    for service in joined.services:
        wait_until(
            "its spool was delivered",
            lambda s=service: not list(s.folder.glob("runs/*/*/*/*/*/spool")),  # type: ignore[misc]
        )
    assert sorted(cluster.logs(run))[:2] == ["[0] before", "[1] before"]


def test_a_second_service_and_a_host_that_has_not_joined_are_errors(joined: Joined) -> None:
    again = joined.services[0].command("host", "serve")
    assert again.returncode != 0 and "a host service runs already" in again.stderr
    (joined.services[0].folder / "host.json").rename(joined.services[0].folder / "aside")
    missing = joined.services[0].command("host", "serve")
    assert missing.returncode != 0 and "`lockstep host token NAME`" in missing.stderr


def test_a_run_gets_a_host_with_the_label_that_it_asks_for(joined: Joined) -> None:
    cluster = joined.cluster
    labelled = cluster.ok("host", "label", "b", "--label", "rack=a3", "--label", "zone=z")
    assert "LABELS" in labelled and "rack=a3, zone=z" in labelled
    cluster.ok("host", "label", "b", "--label", "zone=")
    assert "labels rack=a3" in cluster.ok("map")
    run = joined.submit("echo on $LOCKSTEP_HOST_ID", "--constraint", "rack=a3", nodes=1)
    assert cluster.ended(run)["state"] == "succeeded"
    assert cluster.logs(run) == ["on b"]
    refused = cluster.command("run", "--detach", "--constraint", "rack=a4", "--", "true", cwd="/")
    assert refused.returncode != 0
    assert "no host has rack=a4: hosts have rack=a3" in refused.stderr


def test_a_run_whose_working_folder_is_gone_fails_at_once(joined: Joined, place: Path) -> None:
    cluster = joined.cluster
    folder = place / "work"
    folder.mkdir()
    cluster.ok("host", "cordon", "a", "b")
    run = cluster.ok("run", "--detach", "--", "true", cwd=folder).strip()
    folder.rmdir()
    cluster.ok("host", "release", "a", "b")
    view = cluster.ended(run)
    assert view["state"] == "failed" and len(view["attempts"]) == 1
    assert f"the working folder {folder} is missing on this host" in view["reason"]
    assert "node 0 on host a" in view["reason"]


def test_a_daemon_of_its_own_machine_takes_no_host(cluster: Cluster) -> None:
    refused = cluster.command("host", "token", "gpu1")
    assert refused.returncode == 2 and "--engine hosts" in refused.stderr


def test_a_run_starts_again_without_a_host_that_an_operator_removes_as_lost(
    joined: Joined,
) -> None:
    cluster = joined.cluster
    run = joined.submit("sleep 600", nodes=1)
    (rank,) = cluster.running_ranks(run)
    (lost,) = [node["host"] for node in cluster.show(run)["attempts"][0]["nodes"]]
    service = next(service for service in joined.services if service.name == lost)
    service.end(signal.SIGKILL)
    for pid in [*agents_of(joined), rank["pid"]]:
        os.kill(pid, signal.SIGKILL)
    wait_until("the host is silent", lambda: "not called" in joined.hosts()[lost])
    assert "is off the map" in cluster.ok("host", "rm", lost, "--lost")
    assert lost not in joined.hosts()
    again = cluster.running_ranks(run)
    assert len(again) == 1 and again[0]["pid"] != rank["pid"]
    assert cluster.show(run)["attempts"][-1]["nodes"][0]["host"] != lost
    cluster.ok("stop", run)
    cluster.ended(run)


def test_what_a_probe_measured_between_hosts_stays_on_the_map(joined: Joined, place: Path) -> None:
    cluster = joined.cluster
    size = ("--nodes", "2", "--devices", "1")
    probe = str(place / "lockstep")
    done = cluster.command("run", *size, "--", probe, "probe", "--json", cwd="/")
    assert done.returncode == 0, done.stderr
    cluster.ok("map", "--measured", "-", input=done.stdout)
    measured = json.loads(cluster.ok("map", "--json"))["measured"]
    assert measured["between_hosts"]["gbit_per_second"] > 0
    cluster.kill_daemon()
    cluster.ok("serve", "--again", "--detach")
    assert json.loads(cluster.ok("map", "--json"))["measured"] == measured
    wrong = cluster.command("map", "--measured", "-", input="no probe")
    assert wrong.returncode == 2 and "no output of `lockstep probe --json`" in wrong.stderr
