"""The keys of a testbed, and the files by which ssh uses them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.hosts.sandbox import run

CONFIG = """
IdentityFile {identity}
IdentitiesOnly yes
UserKnownHostsFile {known}
GlobalKnownHostsFile /dev/null
ConnectTimeout 10
User ann
"""


class Keys:
    """A key of ann's, which each host accepts, and a key of each host."""

    def __init__(self, folder: Path, addresses: dict[str, str]) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        self.config = self.folder / "config"  # for `ssh -F` on this machine
        self.known_hosts = self.folder / "known_hosts"
        self.identity = make_key(self.folder / "id_ed25519", "ann")
        config = CONFIG.format(identity=self.identity, known=self.known_hosts)
        known = ""
        for name, address in addresses.items():
            public = make_key(self.folder / name, name).with_suffix(".pub").read_text()
            known += f"{name},{address} {public}"
            config += f"Host {name}\n  HostName {address}\n  HostKeyAlias {name}\n"
        self.config.write_text(config)
        self.known_hosts.write_text(known)

    def give_user(self, folder: Path) -> None:
        """Fills the .ssh of a user of the hosts."""
        folder.mkdir(mode=0o700, parents=True)
        shutil.copy(self.identity, folder / "id_ed25519")
        shutil.copy(self.identity.with_suffix(".pub"), folder / "authorized_keys")

    def give_host(self, name: str, folder: Path) -> None:
        """Fills a host's /etc/ssh."""
        shutil.copy(self.folder / name, folder / "ssh_host_ed25519_key")
        shutil.copy(self.folder / f"{name}.pub", folder / "ssh_host_ed25519_key.pub")
        shutil.copy(self.known_hosts, folder / "ssh_known_hosts")


def make_key(path: Path, comment: str) -> Path:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
    return path
