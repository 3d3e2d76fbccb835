"""A rank of one user sees nothing of the daemon and of the ranks of another user."""

from __future__ import annotations

from pathlib import Path

from tests.isolation.conftest import ACCOUNTS, User

from tests.conftest import Cluster, wait_until

# A rank with a file in each place where others might look. It ends when its folder has `stop`.
VICTIM = """
import os, pathlib, time
from multiprocessing import shared_memory
checkpoints = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
(checkpoints / "model").write_text("weights")
segment = shared_memory.SharedMemory(create=True, size=4096)
print("ready", os.getpid(), segment.name, checkpoints, os.getuid(), os.environ["HOME"], flush=True)
while not (checkpoints / "stop").exists():
    time.sleep(0.05)
segment.unlink()
"""

# Tries to read, list or write each path; prints those that it could.
INTRUDER = """
import os, sys
print("groups", os.getuid(), sorted(os.getgroups()), flush=True)
for path in sys.argv[1:]:
    tried = [lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)]
    tried.append(lambda: os.close(os.open(path, os.O_WRONLY)))
    for attempt in tried:
        try:
            attempt()
            print("COULD", path, flush=True)
        except IsADirectoryError:
            pass
        except OSError as error:
            print("denied", path, error.errno, flush=True)
"""


def files_below(folder: Path) -> list[str]:
    return [str(path) for path in (folder, *folder.rglob("*"))]


def test_a_rank_runs_as_the_account_of_its_user_and_reaches_nothing_of_the_daemon_or_of_others(
    admin: Cluster, ann: User, bob: User, folder: Path
) -> None:
    victim = ann.submit("--", "python3", "-c", VICTIM)
    admin.running_ranks(victim)
    line = wait_until(
        "the rank is ready", lambda: next((x for x in ann.logs(victim) if "ready " in x), None)
    )
    _, pid, segment, checkpoints, user, home = line[line.index("ready ") :].split()
    account, number = ACCOUNTS["ann"]
    assert int(user) == number and home == str(folder / "homes" / account)
    node = admin.attempt_folder(victim) / "node-0"
    assert node.stat().st_uid == number and node.stat().st_mode & 0o777 == 0o700
    targets = [
        *(f"{admin.home}/{name}" for name in ("key", "token", "lockstep.db", "daemon.log", "lock")),
        *(str(admin.home), str(admin.home / "runs")),
        *files_below(node),
        *files_below(Path(checkpoints)),
        *(f"/proc/{pid}/environ", f"/proc/{pid}/mem", f"/proc/{pid}/fd"),
        f"/dev/shm/{segment}",
        *(str(path) for path in Path("/tmp").glob(f"lockstep-{number}-*")),
    ]
    assert (node / "launch.json").exists() and (node / "secret").exists()
    spy = bob.submit("--", "python3", "-c", INTRUDER, *targets)
    assert bob.ended(spy)["state"] == "succeeded"
    said = bob.output(spy)
    assert f"groups {ACCOUNTS['bob'][1]} [{ACCOUNTS['bob'][1]}]" in said
    assert "COULD" not in said
    assert said.count("denied") >= len(targets)
    assert bob.command("show", victim).returncode != 0
    (Path(checkpoints) / "stop").touch()
    assert ann.ended(victim)["state"] == "succeeded"


def test_an_account_of_root_and_a_user_without_a_line_start_nothing(
    admin: Cluster, folder: Path
) -> None:
    for name, words in (
        ("eve", "this host starts no ranks as 'root', whose user id 0 is below 1000"),
        ("carl", "add a line 'carl' to /etc/lockstep/users"),
    ):
        user = User(admin, name, folder)
        view = user.ended(user.submit("--", "true"))
        assert view["state"] == "failed" and words in view["reason"], view
    run = admin.submit("--", "id")
    view = admin.ended(run)
    assert view["state"] == "failed" and "no ranks as 'root'" in view["reason"]


def test_the_daemon_follows_no_link_that_a_rank_leaves_in_its_folder(
    admin: Cluster, ann: User, folder: Path
) -> None:
    secret = folder / "secret-of-root"
    secret.write_text("untouched")
    secret.chmod(0o600)
    script = (
        'cd "$(dirname "$LOCKSTEP_SECRET_FILE")"; '
        f"for name in flight.json traces agent.log.1 spool.tmp; do ln -s {secret} $name; done"
    )
    run = ann.submit("--", "sh", "-c", script)
    assert ann.ended(run)["state"] == "succeeded"
    assert "untouched" not in ann.command("flight", run).stdout
    ann.ok("rm", run, "--yes")
    wait_until("the run's files are gone", lambda: not list(admin.home.glob("runs/*/ann/*")))
    assert secret.read_text() == "untouched"


def test_the_daemon_says_that_users_cannot_reach_its_folder(admin: Cluster, folder: Path) -> None:
    other = Cluster(folder / "homes" / ACCOUNTS["ann"][0] / "home")
    other.within = admin.within
    refused = other.command("serve", "--detach")
    assert refused.returncode != 0
    assert "serve with LOCKSTEP_HOME=/var/lib/lockstep" in refused.stderr
