"""`lockstep` commands on this machine that reach the hosts of a testbed by SSH."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

from tests.hosts.sandbox import run
from tests.hosts.testbed import Testbed

from tests.conftest import PATIENCE, PROGRAM


class Commands:
    """Run on the network of the testbed, with an ssh that reads a configuration of the test's."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self._within = testbed.on_network
        self.config = folder / "ssh_config"
        self.config.write_text(testbed.keys.config.read_text())
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.config} "$@"\n')
        ssh.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{ssh.parent}:{os.environ['PATH']}",
            "LOCKSTEP_HOME": str(folder / "home"),
        }

    def prefer(self, settings: str) -> None:
        """Settings of ssh that go before the testbed's own: ssh takes the first."""
        self.config.write_text(f"{settings}\n{self.config.read_text()}")

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


def make_package(folder: Path) -> Path:
    """A tarball as `./dev package` makes it, with the program alone: hosts have its libraries."""
    version = run(str(PROGRAM), "--version").split()[-1]
    stripped = folder / "lockstep"
    run("strip", "-o", str(stripped), str(PROGRAM))
    package = folder / f"lockstep-{version}-Linux.tar.gz"
    with tarfile.open(package, "w:gz", compresslevel=1) as tar:
        tar.add(stripped, f"lockstep-{version}-Linux/bin/lockstep")
    return package
