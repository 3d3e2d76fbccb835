"""Host services of this machine that join a daemon.

A service that runs as root starts no rank as root, so tests of root use an account without rights.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.conftest import PATIENCE, Cluster, wait_until

AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


class Service:
    """A host service with a folder of its own."""

    def __init__(self, cluster: Cluster, place: Path, name: str) -> None:
        self.name = name
        home = place / name
        self.folder = home / "host"
        self._within = [*(AS_NOBODY if os.geteuid() == 0 else ()), str(place / "lockstep")]
        self._environment = {
            **cluster.environment,
            "LOCKSTEP_HOME": str(home),
            "HOME": str(place),
            "XDG_RUNTIME_DIR": "",
        }
        self._process: subprocess.Popen[bytes] | None = None
        token = cluster.ok("host", "token", name, "--pod", "left")
        url = cluster.url()
        done = self.command("host", "join", url, "--address", "127.0.0.1", stdin=token)
        assert done.returncode == 0, done.stderr

    def command(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._within, *words],
            env=self._environment,
            cwd="/",
            input=stdin,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, "host", "serve"],
                env=self._environment,
                cwd="/",
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(timeout=PATIENCE)

    def log(self) -> str:
        return (self.folder / "log").read_text()


class Joined:
    """A daemon and its hosts, a and b if nothing else is said."""

    def __init__(self, cluster: Cluster, folder: Path, names: str = "ab") -> None:
        self.cluster = cluster
        self.services = [Service(cluster, folder, name) for name in names]
        for service in self.services:
            service.start()
        self.await_open()

    def hosts(self) -> dict[str, str]:
        """Why each cannot be used; empty: it can."""
        listed = json.loads(self.cluster.ok("host", "ls", "--json"))["hosts"]
        return {host["id"]: host["unavailable"] for host in listed}

    def await_open(self) -> None:
        is_open = [""] * len(self.services)
        wait_until("all are open", lambda: list(self.hosts().values()) == is_open)

    def submit(self, script: str, *options: str, nodes: int = 2) -> str:
        size = ("--nodes", str(nodes), "--devices", "1", *options)
        return self.cluster.ok("run", "--detach", *size, "--", "sh", "-c", script, cwd="/").strip()

    def service(self, name: str) -> Service:
        return next(service for service in self.services if service.name == name)

    def end(self) -> None:
        for service in self.services:
            service.end(signal.SIGKILL)


def agents_of(joined: Joined) -> list[int]:
    """The agents hold the lock of their node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"agent":
                folders = [str(service.folder).encode() for service in joined.services]
                if any(words[2].startswith(folder) for folder in folders):
                    found.append(int(entry.name))
    return found
