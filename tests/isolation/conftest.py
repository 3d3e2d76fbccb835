"""A daemon of root whose ranks run as other Unix users: in a mount namespace with accounts and a
table of users of its own, so that nothing of this machine changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import Cluster, wait_until

# The daemon's users have accounts of other names.
ACCOUNTS = {"ann": ("lsann", 52001), "bob": ("lsbob", 52002)}
CGROUPS = Path("/sys/fs/cgroup")


class User(Cluster):
    """Commands with a token of this user."""

    def __init__(self, admin: Cluster, name: str, folder: Path) -> None:
        super().__init__(admin.home)
        self.name = name
        self.within = admin.within
        admin.ok("user", "add", name)
        token = folder / f"{name}.token"
        token.write_text(admin.ok("token", "create", "--user", name))
        token.chmod(0o600)
        self.environment |= {
            "LOCKSTEP_URL": admin.url(),
            "LOCKSTEP_TOKEN_FILE": str(token),
            "LOCKSTEP_HOME": str(folder / name),
        }

    def output(self, run: str) -> str:
        return "\n".join(self.logs(run))


def write_accounts(folder: Path) -> None:
    passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
    for account, number in ACCOUNTS.values():
        home = folder / "homes" / account
        home.mkdir(parents=True)
        os.chown(home, number, number)
        home.chmod(0o700)
        passwd += f"{account}:x:{number}:{number}::{home}:/bin/sh\n"
        group += f"{account}:x:{number}:\n"
    (folder / "passwd").write_text(passwd)
    (folder / "group").write_text(group)
    (folder / "etc").mkdir()
    table = "".join(f"{user} {account}\n" for user, (account, _) in ACCOUNTS.items())
    (folder / "etc" / "users").write_text(table + "eve root\n")


@contextmanager
def machine_with_users(folder: Path) -> Iterator[list[str]]:
    """The words that run a command on it."""
    write_accounts(folder)
    had_folder = Path("/etc/lockstep").exists()
    Path("/etc/lockstep").mkdir(exist_ok=True)  # where the namespace has a file system of its own
    script = (
        f"mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/group /etc/group && "
        f"mount --bind {folder}/etc /etc/lockstep && echo ready && exec sleep infinity"
    )
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout and holder.stdout.readline() == "ready\n"
        yield ["nsenter", "--mount", "--target", str(holder.pid)]
    finally:
        holder.kill()
        holder.wait()
        if not had_folder:
            Path("/etc/lockstep").rmdir()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Other users can pass through it, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="lockstep-isolation-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def cgroups_of(cluster: Cluster) -> list[Path]:
    """The control groups of its nodes."""
    installation = (cluster.home / "installation").read_text().strip()
    return [node for node in CGROUPS.glob(f"**/lockstep/{installation}/*") if node.is_dir()]


@pytest.fixture
def admin(folder: Path) -> Iterator[Cluster]:
    """The daemon of root and its administrator."""
    if os.geteuid() != 0:
        pytest.skip("only root starts processes as other users")
    with machine_with_users(folder) as within:
        cluster = Cluster(folder / "home")
        cluster.within = within
        cluster.serve("1x4")
        yield cluster
        cluster.close()
        wait_until("its control groups are gone", lambda: not cgroups_of(cluster))
        installation = (cluster.home / "installation").read_text().strip()
        for group in list(CGROUPS.glob(f"**/lockstep/{installation}")):
            group.rmdir()
            with suppress(OSError):  # another daemon has groups there
                group.parent.rmdir()


@pytest.fixture
def ann(admin: Cluster, folder: Path) -> User:
    return User(admin, "ann", folder)


@pytest.fixture
def bob(admin: Cluster, folder: Path) -> User:
    return User(admin, "bob", folder)
