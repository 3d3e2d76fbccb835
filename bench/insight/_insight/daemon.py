"""A daemon of its own for the benchmark."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from _contest.contest import BUILD

PROGRAM = BUILD / "bin" / "lockstep"


class Daemon:
    """Serves from the folder `home`, with pretended hosts; ends with the `with` block."""

    def __init__(self, home: Path, hosts: str = "1x2") -> None:
        self.home = home
        self.hosts = hosts
        self.environment = os.environ | {"LOCKSTEP_HOME": str(home)}

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.lockstep("serve", "--hosts", self.hosts, "--detach")

    def stop(self) -> None:
        self.lockstep("serve", "--stop")

    def lockstep(self, *words: str) -> str:
        return subprocess.run(
            [str(PROGRAM), *words], env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    @property
    def address(self) -> tuple[str, int]:
        url = urlsplit(json.loads((self.home / "daemon.json").read_text())["url"])
        assert url.hostname and url.port
        return url.hostname, url.port

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    def process_status(self, name: str) -> int:
        """A figure of /proc/PID/status in kB, such as VmHWM."""
        process = json.loads((self.home / "daemon.json").read_text())["pid"]
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise KeyError(name)
