"""`lockstep` commands on this machine that reach the hosts of a testbed by SSH."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

from tests.hosts.sandbox import run
from tests.hosts.testbed import Testbed

from tests.conftest import PATIENCE, PROGRAM


def make_ssh_config(testbed: Testbed, folder: Path) -> Path:
    config = folder / "ssh_config"
    config.write_text(testbed.keys.config.read_text())
    return config


def path_with_ssh(folder: Path, config: Path) -> str:
    """A PATH with an ssh that reads this configuration."""
    ssh = folder / "bin" / "ssh"
    ssh.parent.mkdir(exist_ok=True)
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    ssh.chmod(0o755)
    return f"{ssh.parent}:{os.environ['PATH']}"


class Commands:
    """Run on the network of the testbed, with an ssh that reads a configuration of the test's."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self._within = testbed.on_network
        self.config = make_ssh_config(testbed, folder)
        self._environment = {
            **os.environ,
            "PATH": path_with_ssh(folder, self.config),
            "LOCKSTEP_HOME": str(folder / "home"),
        }

    def prefer(self, settings: str) -> None:
        """Settings of ssh that go before the testbed's own: ssh takes the first."""
        self.config.write_text(f"{settings}\n{self.config.read_text()}")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._within, str(PROGRAM), *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._within, str(PROGRAM), *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.command(*words)
        assert done.returncode == 0, f"lockstep {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def version() -> str:
    return run(str(PROGRAM), "--version").split()[-1]


def make_tarball(folder: Path, note: str = "") -> Path:
    """As `./dev package` makes it, but with the program alone: the hosts have its libraries."""
    stripped = folder / "lockstep"
    run("strip", "-o", str(stripped), str(PROGRAM))
    name = f"lockstep-{version()}-Linux"
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(stripped, f"{name}/bin/lockstep")
        if note:  # so that it is another package of the same version
            (folder / "note").write_text(note)
            tar.add(folder / "note", f"{name}/note")
    return folder / f"{name}.tar.gz"


def make_debian_package(folder: Path) -> Path:
    """The same as a .deb."""
    content = folder / "deb"
    (content / "usr/bin").mkdir(parents=True)
    run("strip", "-o", str(content / "usr/bin/lockstep"), str(PROGRAM))
    (content / "DEBIAN").mkdir()
    (content / "DEBIAN/control").write_text(
        f"Package: lockstep\nVersion: {version()}\nArchitecture: amd64\n"
        "Maintainer: tests <tests@lockstep.invalid>\nDescription: the program alone\n"
    )
    package = folder / f"lockstep_{version()}_amd64.deb"
    run("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", str(content), str(package))
    return package
