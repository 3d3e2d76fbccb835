"""A daemon on the machine of the test, and hosts of the testbed that have joined it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.hosts.commands import make_ssh_config, path_with_ssh
from tests.hosts.host import Host
from tests.hosts.sandbox import LOGIN_ADDRESS
from tests.hosts.testbed import Testbed

from tests.conftest import PATIENCE, PROGRAM, wait_until

UNIT = "lockstep-host-test.service"
ROOT_HOME = "/var/lib/lockstep-host"
REAL_TIMES = bool(os.environ.get("LOCKSTEP_REAL_TIMES"))
# Bounds of the daemon at about a twentieth: cuts of tests are that much shorter, too.
SETTINGS = (
    () if REAL_TIMES else ("host_silent_after=3s", "unreachable_after=15s", "kill_interval=1s")
)


class Cluster:
    """`with Cluster(...)`: at its end no process of it is left on any host."""

    def __init__(
        self,
        testbed: Testbed,
        folder: Path,
        options: tuple[str, ...] = (),
        listen: str = LOGIN_ADDRESS,
    ) -> None:
        self._testbed = testbed
        self.home = folder / "head"
        self._options = options
        self._listen = listen
        self.environment = {
            **os.environ,
            "LOCKSTEP_HOME": str(self.home),
            "PATH": path_with_ssh(folder, make_ssh_config(testbed, folder)),
        }

    def __enter__(self) -> Cluster:
        self.start_daemon()
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._testbed.hosts:
            if host.is_running():
                host.as_root(f"systemctl stop {UNIT}; pkill -KILL -u ann -x lockstep; true")
                host.as_root(f"pkill -KILL -u ann; rm -rf /home/ann/.local {ROOT_HOME}; true")
        self.command("serve", "--stop")

    # The daemon

    def start_daemon(self) -> None:
        words = ["serve", "--engine", "hosts", "--listen", self._listen, "--detach"]
        for setting in SETTINGS:
            words += ["--set", setting]
        self.ok(*words, *self._options)

    def kill_daemon(self) -> None:
        pid = json.loads((self.home / "daemon.json").read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until("the daemon is dead", lambda: not Path(f"/proc/{pid}").exists())

    def restart_daemon(self) -> None:
        self.kill_daemon()
        self.ok("serve", "--again", "--detach")

    @property
    def url(self) -> str:
        return str(json.loads((self.home / "daemon.json").read_text())["network_url"])

    # Commands

    def command(
        self, *words: str, timeout: float = 2 * PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._testbed.on_network, str(PROGRAM), *words],
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.command(*words)
        assert done.returncode == 0, f"lockstep {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))

    def submit(self, script: str, *words: str, nodes: int = 4, devices: int = 2) -> str:
        """Returns the run's name."""
        size = ["--nodes", str(nodes), "--devices", str(devices)]
        done = self.ok("run", "--detach", *size, *words, "--", "sh", "-c", script)
        return done.split()[0]

    def submit_program(self, words: list[str], nodes: int, devices: int = 2) -> str:
        size = ["--nodes", str(nodes), "--devices", str(devices)]
        return self.ok("run", "--detach", *size, "--", *words).split()[0]

    def run(self, name: str) -> Any:
        return self.json("show", name)

    def await_state(self, name: str, state: str) -> Any:
        def reached() -> Any:
            view = self.run(name)
            assert view["state"] not in {"failed", "cancelled"} or state == view["state"], view
            return view if view["state"] == state else None

        return wait_until(f"{name} is {state}", reached, 2 * PATIENCE)

    def lines(self, name: str, ranks: int = 2) -> list[str]:
        """Without the numbers of the ranks, which only several have."""
        lines = self.ok("logs", name).splitlines()
        return lines if ranks == 1 else [line.split("] ", 1)[1] for line in lines]

    # Hosts

    def join(self, host: Host, root: bool = False) -> None:
        token = self.ok("host", "token", host.name).strip()
        join = f"{PROGRAM} host join '{self.url}'"
        if root:
            host.as_root(f"printf %s {token} | LOCKSTEP_HOME={ROOT_HOME} {join}")
        else:
            host.run(f"printf %s {token} | {join}")

    def serve(self, host: Host, root: bool = False) -> None:
        """Starts the service of ann, or of root, as the units of the package do."""
        user = (
            f"--setenv=LOCKSTEP_HOME={ROOT_HOME}" if root else "--uid=ann --setenv=HOME=/home/ann"
        )
        host.as_root(
            f"systemd-run --quiet --unit={UNIT} {user}"
            f" -p KillMode=process -p Delegate=yes -p Restart=always -p RestartSec=1"
            f" {PROGRAM} host serve"
        )

    def keep_served(self, host: Host) -> None:
        """A host that booted again has lost the transient unit."""
        if host.as_root(f"systemctl is-active {UNIT} || true").strip() != "active":
            self.serve(host)

    def restart_service(self, host: Host) -> None:
        host.as_root(f"systemctl restart {UNIT}")

    def add(self, *hosts: Host) -> None:
        for host in hosts:
            self.join(host)
            self.serve(host)
        for host in hosts:
            self.await_host(host, lambda view: not view["unavailable"])

    def host(self, host: Host) -> Any:
        found = [one for one in self.json("host", "ls")["hosts"] if one["id"] == host.name]
        return found[0] if found else None

    def await_host_id(self, name: str, holds: Any) -> None:
        def reached() -> bool:
            found = [one for one in self.json("host", "ls")["hosts"] if one["id"] == name]
            return bool(found) and bool(holds(found[0]))

        wait_until(f"{name} is as wanted", reached, 2 * PATIENCE)

    def await_host(self, host: Host, holds: Any) -> None:

        try:
            self.await_host_id(host.name, holds)
        except AssertionError as error:
            with contextlib.suppress(RuntimeError):
                log = host.as_root(f"journalctl --unit={UNIT} --no-pager | tail -n 20")
                raise AssertionError(f"{error}\n{self.ok('host', 'ls')}\n{log}") from error
            raise
