"""Hosts that boot: `with Testbed(4) as testbed` has gpu1 to gpu4, with SSH and nothing else.

Each host is a copy of this machine's file system (an overlay, changes in memory) that
systemd-nspawn boots. It has its own machine id, boot id, host key, processes, /dev/shm and network
interface. None of this machine's services starts in it but sshd. Its user is ann, with a key for
logins from this machine and from the other hosts. /shared is one folder for all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.hosts.host import FAKETIME, Host
from tests.hosts.keys import Keys
from tests.hosts.sandbox import LOGIN_ADDRESS, PREFIX, Sandbox, Unavailable

NEEDED = {
    "systemd-nspawn": "systemd-container",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "nft": "nftables",
    "ip": "iproute2",
    FAKETIME: "libfaketime",
}

# Run once, in a file system that is the lower layer of all hosts.
PREPARE = """
set -e
rm -rf /etc/systemd/system /etc/systemd/user /etc/ssh/sshd_config.d /etc/cron.d /var/log/journal
rm -f /etc/ssh/sshd_not_to_be_run /etc/ssh/ssh_host_* /usr/sbin/policy-rc.d
rm -rf /var/lib/systemd/linger /etc/update-motd.d
mkdir -p /etc/systemd/system/multi-user.target.wants /etc/systemd/user /etc/ssh/sshd_config.d
wants=/etc/systemd/system/multi-user.target.wants
ln -s /lib/systemd/system/ssh.service /etc/systemd/system/network-of-host.service $wants/
ln -s /lib/systemd/system/multi-user.target /etc/systemd/system/default.target
ln -s /dev/null /etc/systemd/system/console-getty.service
echo 'Include /run/sshd-clock.conf' >/etc/ssh/sshd_config.d/clock.conf
: >/etc/fstab
userdel ann 2>/dev/null || true
useradd --create-home --shell /bin/bash --password '*' ann
for user in ann root; do
  home=$(getent passwd $user | cut -d: -f6)
  cp -r /key $home/.ssh
  chown -R $user: $home/.ssh
done
rm -rf /key
"""

NETWORK_UNIT = """
[Unit]
Description=Address of this host
DefaultDependencies=no
Before=network.target ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/ip link set host0 up
ExecStart=/bin/ip address add {address}/24 dev host0
"""


class Testbed:
    """Use it in `with`: at its end nothing is left, also if the program is killed.

    Hosts see the files and folders `binds` of this machine under the same path, read-only.
    """

    __test__ = False  # for pytest: it is no test

    def __init__(self, count: int = 4, binds: tuple[Path, ...] = ()) -> None:
        names = {f"gpu{number}": f"10.77.0.{10 + number}" for number in range(1, count + 1)}
        self._addresses = names
        self._binds = binds
        self._cleanup = ExitStack()
        self.hosts: list[Host] = []

    def __enter__(self) -> Testbed:
        check_machine()
        with self._cleanup:
            folder = make_folder()
            self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
            self.keys = Keys(folder / "keys", self._addresses)
            self.disks = folder / "disks"
            self.disks.mkdir()
            self._sandbox = Sandbox(self.disks)
            self._cleanup.callback(self._sandbox.close)
            self._prepare()
            self.hosts = [self._make_host(name) for name in self._addresses]
            with ThreadPoolExecutor(len(self.hosts)) as pool:
                list(pool.map(Host.boot, self.hosts))
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    @property
    def on_network(self) -> list[str]:
        """The prefix of a command on this machine that shall reach the hosts, such as a daemon or
        a client. They reach it at 10.77.0.1."""
        return self._sandbox.on_network

    @property
    def shared(self) -> Path:
        """The folder /shared of all hosts, as this machine sees it."""
        return self._sandbox.seen_from_outside(self.disks / "shared")

    def _prepare(self) -> None:
        """The layer that all hosts have."""
        base = self._overlay("base", "/", hidden=("root", "home"))
        self.keys.give_user(self._sandbox.seen_from_outside(base / "key"))
        self._sandbox.run("chroot", str(base), "sh", "-c", PREPARE)
        self.shared.mkdir()
        self.shared.chmod(0o1777)

    def _overlay(self, name: str, lower: str, hidden: tuple[str, ...] = ()) -> Path:
        """A file system of its own over another; returns its path inside the sandbox. The folders
        `hidden` are empty."""
        folder = self.disks / name
        for part in ("upper", "work", "root"):
            self._sandbox.seen_from_outside(folder / part).mkdir(parents=True)
        for part in hidden:
            empty = self._sandbox.seen_from_outside(folder / "upper" / part)
            empty.mkdir()
            os.setxattr(empty, "trusted.overlay.opaque", b"y")
        layers = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
        self._sandbox.run("mount", "-t", "overlay", "-o", layers, name, f"{folder}/root")
        return folder / "root"

    def _make_host(self, name: str) -> Host:
        root = self._overlay(name, f"{self.disks}/base/upper:/")
        address = self._addresses[name]
        binds = [f"--bind={self.disks}/shared:/shared"]
        binds += [f"--bind-ro={path}" for path in self._binds]
        others = [other for other in self._addresses.values() if other != address]
        ssh = [*self.on_network, "ssh", "-F", str(self.keys.config), "-o", "BatchMode=yes"]
        host = Host(self._sandbox, name, root, binds, ssh)
        host.address, host.others = address, [*others, LOGIN_ADDRESS]
        host.file("etc/hostname").write_text(f"{name}\n")
        host.file("etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        host.file("etc/hosts").write_text(self._etc_hosts(name))
        unit = host.file("etc/systemd/system/network-of-host.service")
        unit.write_text(NETWORK_UNIT.format(address=address))
        self.keys.give_host(name, host.file("etc/ssh"))
        return host

    def _etc_hosts(self, name: str) -> str:
        # As Debian does it: the name of a host is a loopback address on that host.
        lines = ["127.0.0.1 localhost", f"127.0.1.1 {name}", f"{LOGIN_ADDRESS} login"]
        lines += [f"{address} {other}" for other, address in self._addresses.items()]
        return "\n".join([*lines, ""])


def make_folder() -> Path:
    """A temporary folder with our process id in its name; those of killed programs are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def check_machine() -> None:
    """Raises Unavailable with the reason if hosts cannot boot on this machine."""
    if os.geteuid() != 0:
        raise Unavailable("hosts that boot need root")
    lacks = {
        package
        for program, package in NEEDED.items()
        if shutil.which(program) is None and not Path(program).exists()
    }
    if lacks:
        raise Unavailable(f"hosts that boot need Debian's {', '.join(sorted(lacks))}")
