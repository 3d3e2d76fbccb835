"""The daemon's folder: one daemon each, files that were lost, other machines that share it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, PROGRAM, Cluster, wait_until


def log_of(cluster: Cluster) -> str:
    return (cluster.home / "daemon.log").read_text()


def test_without_its_lock_file_a_daemon_still_keeps_others_out(idle: Cluster) -> None:
    idle.serve("1x1")
    daemon = idle.daemon_pid()
    (idle.home / "lock").unlink()
    second = idle.command("serve", "--hosts", "2x2", "--detach")
    assert second.returncode == 2 and "a daemon already serves" in second.stderr
    assert f"process {daemon}" in idle.ok("serve", "--stop")


def test_a_database_that_is_removed_is_missed_at_once_and_used_again_once_it_is_back(
    idle: Cluster,
) -> None:
    idle.serve("1x1")
    store, aside = idle.home / "lockstep.db", idle.home / "aside"
    store.rename(aside)
    wait_until("the daemon says so", lambda: "was removed while" in log_of(idle))
    assert "was removed while the daemon uses it" in idle.ok("version")
    refused = idle.command("run", "--detach", "--", "true")
    assert refused.returncode != 0 and "nothing can be stored" in refused.stderr
    second = idle.command("serve", "--detach")
    assert second.returncode == 2 and "a daemon already serves" in second.stderr
    aside.rename(store)
    wait_until("it is taken again", lambda: "trouble" not in idle.ok("version"))
    assert idle.ended(idle.submit("--", "true"))["state"] == "succeeded"


def test_a_daemon_whose_database_is_replaced_makes_way(idle: Cluster) -> None:
    idle.serve("1x1")
    daemon = idle.daemon_pid()
    (idle.home / "new.db").touch()
    (idle.home / "new.db").rename(idle.home / "lockstep.db")
    wait_until("the daemon has ended", lambda: "the daemon ends" in log_of(idle))
    wait_until("another one is started", lambda: idle.command("ps").returncode == 0)
    assert idle.daemon_pid() != daemon


def test_a_daemon_is_found_though_its_file_is_removed_or_damaged(idle: Cluster) -> None:
    idle.serve("1x1")
    file = idle.home / "daemon.json"
    before = file.read_text()
    file.unlink()
    assert "daemon   none" not in idle.ok("version")
    for damaged in ("", "{", '{"pid": 1}'):
        file.write_text(damaged)
        idle.ok("ps")
        wait_until("the file is whole again", lambda: file.read_text() == before)
    (idle.home / "served.json").write_text("{")
    wait_until("the other one, too", lambda: (idle.home / "served.json").read_text() != "{")
    assert "it is made again" in log_of(idle)


def test_a_damaged_file_of_a_daemon_that_died_is_named_and_made_again(idle: Cluster) -> None:
    idle.serve("1x1")
    idle.kill_daemon()
    (idle.home / "daemon.json").write_text("{")
    done = idle.command("ps")
    assert done.returncode == 0, done.stderr
    assert f"{idle.home}/daemon.json is damaged" in done.stderr
    assert "started the daemon" in done.stderr
    idle.ok("ps")


def test_when_it_is_not_known_what_was_served_the_user_is_asked(idle: Cluster) -> None:
    idle.serve("1x2")
    idle.ok("serve", "--stop")
    (idle.home / "served.json").write_text("{")
    refused = idle.command("ps")
    assert refused.returncode != 0 and f"{idle.home}/served.json is damaged" in refused.stderr
    assert "lockstep serve --hosts" in refused.stderr
    idle.serve("1x2")


def test_a_folder_that_others_may_write_to_is_refused(idle: Cluster) -> None:
    idle.home.mkdir()
    idle.home.chmod(0o777)
    for words in (["ps"], ["serve", "--detach"], ["version"]):
        refused = idle.command(*words)
        assert refused.returncode == 2, refused.stdout
        assert f"`chmod go-w {idle.home}`" in refused.stderr
    assert not list(idle.home.iterdir())
    idle.home.chmod(0o755)
    idle.ok("ps")


def test_no_daemon_is_started_where_one_of_another_machine_serves(idle: Cluster) -> None:
    idle.serve("1x1")
    there = json.loads((idle.home / "daemon.json").read_text())
    idle.ok("serve", "--stop")
    there.update(host="login-a", machine="a", boot="b", url="http://127.0.0.1:1")
    (idle.home / "daemon.json").write_text(json.dumps(there))
    for words in (["ps"], ["serve", "--detach"], ["serve", "--stop"], ["run", "--", "true"]):
        refused = idle.command(*words)
        assert refused.returncode != 0 and "runs on login-a" in refused.stderr, words
        assert "`ssh login-a lockstep ...`" in refused.stderr
    (idle.home / "daemon.json").unlink()
    idle.ok("ps")


# --- Commands of ranks ---


def test_a_command_of_a_rank_talks_to_the_daemon_of_its_run(cluster: Cluster) -> None:
    run = cluster.submit("--", str(PROGRAM), "ps", "--json")
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    assert f'"{run}"' in "".join(cluster.logs(run))


def test_a_command_of_a_rank_starts_no_daemon(cluster: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waiting = f"while [ ! -e {go} ]; do sleep 0.05; done; {PROGRAM} ps > {tmp_path}/said 2>&1"
    run = cluster.submit("--", "sh", "-c", f"{waiting}; touch {tmp_path}/over")
    cluster.running_ranks(run)
    cluster.kill_daemon()
    go.touch()
    wait_until("the command has ended", (tmp_path / "over").exists)
    said = (tmp_path / "said").read_text()
    assert f"a command inside a run ({run}) starts none" in said
    assert cluster.ended(run)["state"] == "succeeded"


# --- Addresses ---

# In a separate network with an address that others reach.
WITH_AN_ADDRESS = """
import json, pathlib, subprocess, sys
program, home = sys.argv[1], pathlib.Path(sys.argv[2])
def lockstep(*words):
    return subprocess.run([program, *words], text=True, capture_output=True)
for words in (
    "link set lo up", "link add one type veth peer name two", "addr add 10.9.8.7/24 dev one",
    "link set one up", "link set two up",
):
    subprocess.run(["ip", *words.split()], check=True)
said = {}
said["serve"] = lockstep("serve", "--hosts", "1x2", "--listen", "0.0.0.0", "--detach").stdout
said["file"] = json.loads((home / "daemon.json").read_text())
said["ps"] = lockstep("ps").returncode
said["stop"] = lockstep("serve", "--stop").returncode
said["again"] = lockstep("ps").stderr
said["file again"] = json.loads((home / "daemon.json").read_text())
said["map"] = lockstep("map").stdout
said["stop"] += lockstep("serve", "--stop").returncode
print(json.dumps(said))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_an_address_for_others_is_usable_and_never_opened_by_a_command_alone(
    idle: Cluster,
) -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", WITH_AN_ADDRESS, str(PROGRAM), str(idle.home)],
        env=idle.environment,
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert "0.0.0.0" not in said["serve"]
    url, fingerprint = said["file"]["url"].split("#")
    port = url.rpartition(":")[2]
    assert url == f"https://127.0.0.1:{port}" and fingerprint.startswith("sha256:")
    assert said["file"]["network_url"] == f"https://10.9.8.7:{port}#{fingerprint}"
    assert f"for other machines at https://10.9.8.7:{port};" in said["serve"]
    assert f"lockstep login {said['file']['network_url']}" in said["serve"]
    assert said["ps"] == 0 and said["stop"] == 0
    assert "listens to this machine alone" in said["again"]
    assert said["file again"]["network_url"] == ""
    assert "2 devices" in said["map"] or "vm-0" in said["map"]


# --- A home that several machines share ---


class SharedHome(Cluster):
    """A user's home on a real FUSE file system, in mounts of its own, with /var/tmp of its own."""

    def __init__(self, folder: Path) -> None:
        self.users = folder / "users"
        self.real = folder / "real"
        self.users.mkdir()
        self.real.mkdir()
        super().__init__(Path(f"/var/tmp/lockstep-{os.geteuid()}"))
        del self.environment["LOCKSTEP_HOME"]
        self.environment.pop("XDG_STATE_HOME", None)
        self.environment["HOME"] = str(self.users)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", self._mounts()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None and self.holder.stdout.readline() == "ready\n"
        self.within = ["nsenter", "--mount", "--target", str(self.holder.pid), "--wd=/"]
        self.home = Path(f"/proc/{self.holder.pid}/root{self.home}")

    def _mounts(self) -> str:
        return (
            f"mount -t tmpfs none /var/tmp && bindfs {self.real} {self.users} && echo ready"
            f" && read _; umount {self.users}"
        )

    @property
    def pointer(self) -> Path:
        """The path on the disk below the FUSE file system."""
        return self.real / ".local/state/lockstep/daemon.json"

    def close(self) -> None:
        if (self.home / "daemon.json").exists():
            super().close()
        self.holder.communicate("\n", timeout=PATIENCE)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedHome]:
    if not os.access("/dev/fuse", os.W_OK) or shutil.which("bindfs") is None:
        pytest.skip("a FUSE file system needs /dev/fuse and bindfs")
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    home = SharedHome(tmp_path)
    yield home
    home.close()


def test_a_shared_home_keeps_a_pointer_and_the_state_is_on_this_machine(
    shared: SharedHome,
) -> None:
    shared.serve("1x1")
    assert shared.ended(shared.submit("--", "true"))["state"] == "succeeded"
    assert [path.name for path in shared.pointer.parent.iterdir()] == ["daemon.json"]
    assert (shared.home / "lockstep.db").exists()
    assert shared.home.stat().st_mode & 0o777 == 0o700
    pointer = json.loads(shared.pointer.read_text())
    assert pointer["host"] == os.uname().nodename and pointer["folder"].startswith("/var/tmp/")
    for damage in (lambda: shared.pointer.write_text("{"), shared.pointer.unlink):
        damage()
        done = shared.command("ps")
        assert done.returncode == 0 and "it is made again" in done.stderr
        assert json.loads(shared.pointer.read_text()) == pointer
    os.kill(int(pointer["pid"]), signal.SIGKILL)
    wait_until("a command starts another", lambda: shared.command("ps").returncode == 0)
    assert json.loads(shared.pointer.read_text())["pid"] != pointer["pid"]


def test_on_another_machine_a_shared_home_leads_to_the_daemon_and_starts_none(
    shared: SharedHome,
) -> None:
    on_b = ["unshare", "--uts", "sh", "-c", 'hostname login-b && exec "$@"', "sh"]
    here = os.uname().nodename
    shared.serve("1x1")
    within = shared.within
    shared.within = [*within, *on_b]
    for words in (["ps"], ["serve", "--detach"], ["run", "--", "true"]):
        refused = shared.command(*words)
        assert refused.returncode != 0 and f"runs on {here}" in refused.stderr, refused.stderr
    shared.within = within
    shared.ok("serve", "--stop")
    shared.within = [*within, *on_b]
    assert f"was stopped on {here}" in shared.command("ps").stderr
    # Where the daemon listens to others, they use its address.
    shared.within = within
    shared.serve("1x1", "--name", "localhost", "--listen", "0.0.0.0")
    shared.within = [*within, *on_b]
    done = shared.command("ps")
    assert done.returncode == 0, done.stderr
    shared.within = within


def test_a_chosen_folder_on_a_shared_file_system_is_refused(shared: SharedHome) -> None:
    shared.environment["LOCKSTEP_HOME"] = str(shared.users / "chosen")
    for words in (["serve", "--detach"], ["ps"]):
        refused = shared.command(*words)
        assert refused.returncode == 2 and "is on FUSE" in refused.stderr, refused.stderr
        assert "unset LOCKSTEP_HOME" in refused.stderr
    assert not list(shared.real.iterdir())
