"""Gangs on machines that joined: what happens to them when a service, a daemon or a host fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.hosts.cluster import UNIT, Cluster
from tests.hosts.host import Host
from tests.hosts.testbed import Testbed
from tests.hosts.ticking import Ticking

from tests.conftest import PROGRAM

# These have a daemon of their own.


def test_a_host_takes_no_run_until_it_sees_the_shared_folder(
    testbed: Testbed, hosts: list[Host], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with Cluster(testbed, tmp_path, ("--shared", str(shared))) as cluster:
        cluster.join(hosts[0])
        cluster.serve(hosts[0])
        cluster.await_host(
            hosts[0], lambda view: f"does not see the shared folder {shared}" in view["unavailable"]
        )
        hosts[0].as_root(f"mkdir -p {shared} && echo other >{shared}/.lockstep; chown ann {shared}")
        cluster.await_host(hosts[0], lambda view: "is another folder" in view["unavailable"])
        marker = (shared / ".lockstep").read_text()
        hosts[0].as_root(f"printf %s {marker} >{shared}/.lockstep")
        cluster.await_host(hosts[0], lambda view: not view["unavailable"])
        run = cluster.submit("echo $LOCKSTEP_CHECKPOINT_DIR", nodes=1)
        view = cluster.await_state(run, "succeeded")
        assert view["checkpoint_folder"].startswith(f"{shared}/lockstep/runs/")
        assert cluster.lines(run) == [view["checkpoint_folder"]] * 2
        hosts[0].as_root(f"rm -rf {shared}")


def test_a_service_of_root_runs_ranks_only_as_users_that_its_host_allows(
    testbed: Testbed, hosts: list[Host], tmp_path: Path
) -> None:
    host = hosts[0]
    script = "id -un; id -G; echo $HOME; touch $LOCKSTEP_CHECKPOINT_DIR/x && echo written"
    with Cluster(testbed, tmp_path) as cluster:
        cluster.join(host, root=True)
        cluster.serve(host, root=True)
        cluster.await_host(host, lambda view: not view["unavailable"])
        # Nothing runs as root, even if the file has it.
        host.as_root("mkdir -p /etc/lockstep && printf 'root\\nann\\n' >/etc/lockstep/users")
        refused = cluster.submit(script, "--rank-loss-retries", "0", nodes=1)
        view = cluster.await_state(refused, "failed")
        assert "starts no ranks as 'root', whose user id 0 is below 1000" in view["reason"]
        # The other user.
        cluster.ok("user", "add", "ann")
        token = cluster.ok("token", "create", "--user", "ann").strip()
        daemon = f"LOCKSTEP_URL='{cluster.url}' LOCKSTEP_TOKEN_FILE=token"
        host.run(f"umask 077; echo {token} >token")
        run = host.run(f"{daemon} {PROGRAM} run --detach -- sh -c '{script}'").split()[0]
        cluster.await_state(run, "succeeded")
        groups = host.as_root("id -G ann").strip()
        assert cluster.lines(run, ranks=1) == ["ann", groups, "/home/ann", "written"]
        # One that the file does not have.
        host.as_root("echo bob >/etc/lockstep/users")
        words = "--rank-loss-retries 0 --detach -- sh -c true"
        refused = host.run(f"{daemon} {PROGRAM} run {words}").split()[0]
        view = cluster.await_state(refused, "failed")
        assert "add a line 'ann' to /etc/lockstep/users" in view["reason"]
        host.as_root("rm -r /etc/lockstep; rm /home/ann/token")


# The others share one.


def test_a_gang_of_four_hosts_runs_and_its_lines_are_all_there(
    cluster: Cluster, testbed: Testbed, hosts: list[Host]
) -> None:
    gang = Ticking(cluster, testbed, "plain")
    assert {node["host"] for node in cluster.run(gang.run)["attempts"][0]["nodes"]} == {
        host.name for host in hosts
    }
    gang.await_progress()
    gang.end()
    assert all(cluster.host(host)["free"] == cluster.host(host)["devices"] for host in hosts)


def test_a_gang_does_not_see_that_host_services_and_the_daemon_are_killed(
    cluster: Cluster, testbed: Testbed, hosts: list[Host]
) -> None:
    gang = Ticking(cluster, testbed, "killed")
    for host in hosts:
        host.as_root(f"systemctl kill --kill-who=main --signal=KILL {UNIT}")
    gang.await_progress()
    cluster.restart_daemon()
    for host in hosts:
        cluster.await_host(host, lambda view: not view["unavailable"])
    gang.await_progress()
    for host in hosts:
        host.as_root(f"systemctl restart {UNIT}")
    gang.await_progress()
    gang.end()


def test_a_cut_between_the_daemon_and_a_host_costs_a_gang_nothing(
    cluster: Cluster, testbed: Testbed, hosts: list[Host]
) -> None:
    gang = Ticking(cluster, testbed, "cut")
    hosts[1].drop("login")
    try:
        cluster.await_host(hosts[1], lambda view: "has not called since" in view["unavailable"])
    finally:
        hosts[1].undrop("login")
    cluster.await_host(hosts[1], lambda view: not view["unavailable"])
    gang.await_progress()
    gang.end()


def test_a_join_token_is_used_once(cluster: Cluster, hosts: list[Host]) -> None:
    token = cluster.ok("host", "token", "gpu9").strip()

    def join(words: str, home: str) -> subprocess.CompletedProcess[str]:
        return hosts[0].command(
            f"echo {words} | LOCKSTEP_HOME=/tmp/{home} {PROGRAM} host join '{cluster.url}'"
        )

    assert join(token, "first").returncode == 0
    again = join(token, "second")
    assert again.returncode == 2 and "the join token was used already" in again.stderr
    wrong = join(token[:-1] + ("0" if token[-1] == "1" else "1"), "third")
    assert wrong.returncode == 2 and token[:-1] not in wrong.stderr
    assert "did not make this join token" in wrong.stderr
