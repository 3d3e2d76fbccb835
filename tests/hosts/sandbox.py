"""A place for hosts that boot: namespaces and control groups of their own on this machine.

The first process of a PID namespace holds it, and reads from a pipe. When the test program ends in
any way, the pipe ends, and with it the holder. The kernel then kills every process of the sandbox,
and removes its mounts and networks. Only empty control groups stay; the next sandbox removes them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PREFIX = "lockstep-hosts-"
LOGIN_ADDRESS = "10.77.0.1"  # of this machine in the network of the hosts
BRIDGE = "br0"

# /run is the sandbox's own, because systemd-nspawn leaves folders there.
HOLDER = f"""
set -e
mount -t tmpfs -o size=8g hosts "$0"
mount -t tmpfs run /run
ip link set lo up
ip link add {BRIDGE} type bridge
ip address add {LOGIN_ADDRESS}/24 dev {BRIDGE}
ip link set {BRIDGE} up
nft -f - <<'END'
table bridge cut {{
  set pairs {{ type ipv4_addr . ipv4_addr; }}
  chain from_hosts {{ type filter hook prerouting priority 0; ip saddr . ip daddr @pairs drop; }}
  chain from_login {{ type filter hook output priority 0; ip saddr . ip daddr @pairs drop; }}
}}
END
echo ready
exec cat
"""


class Unavailable(Exception):
    """This machine cannot hold hosts that boot; the text says why."""


class Sandbox:
    """Namespaces for mounts, network and processes. `folder` is a tmpfs inside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.groups = ControlGroups()
        namespaces = ["--mount", "--net", "--pid", "--mount-proc", "--propagation=private"]
        self._outer = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "sh", "-c", HOLDER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != "ready\n":
            _, errors = self._outer.communicate()
            self.groups.remove()
            raise Unavailable(f"namespaces cannot be made here: {errors.strip()}")
        (self._holder,) = children(self._outer.pid)

    @property
    def on_network(self) -> list[str]:
        """The prefix of a command on this machine that shall reach the hosts."""
        return ["nsenter", f"--net=/proc/{self._holder}/ns/net"]

    @property
    def inside(self) -> list[str]:
        """The prefix of a command in all namespaces of the sandbox."""
        return ["nsenter", f"--target={self._holder}", "--mount", "--net", "--pid", "--wd=/"]

    def run(self, *command: str, **options: Any) -> str:
        """Runs a command inside; raises with its output if it fails."""
        return run(*self.inside, *command, **options)

    def seen_from_outside(self, path: Path) -> Path:
        return Path(f"/proc/{self._holder}/root{path}")

    def close(self) -> None:
        self._outer.communicate()  # the end of its input ends it, and with it all that is inside
        self.groups.remove()


class ControlGroups:
    """A group for each host in each hierarchy, so that systemd in a host sees no other process."""

    def __init__(self) -> None:
        self._remove_leftovers()
        self._name = f"{PREFIX}{os.getpid()}"
        self._tops = [hierarchy / self._name for hierarchy in hierarchies()]

    def make(self, host: str) -> list[Path]:
        """The files that take a process into the host's groups."""
        made = []
        for top in self._tops:
            group = top / host
            group.mkdir(parents=True, exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # of version 1: empty in a new group
                if (top.parent / name).exists():
                    for below in (top, group):
                        (below / name).write_text((top.parent / name).read_text())
            made.append(group / "cgroup.procs")
        return made

    def remove(self) -> None:
        for top in self._tops:
            remove_groups(top)

    @staticmethod
    def _remove_leftovers() -> None:
        for hierarchy in hierarchies():
            for top in hierarchy.glob(f"{PREFIX}*"):
                if not Path(f"/proc/{top.name.removeprefix(PREFIX)}").exists():
                    remove_groups(top)


def hierarchies() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(words[1]) for words in mounts if words[2] in ("cgroup", "cgroup2")]


def remove_groups(top: Path) -> None:
    """The deepest first; a group with processes stays."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def children(pid: int) -> list[int]:
    """Those of all its threads; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def name_of(pid: int) -> str:
    """The name of its program; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def run(*command: str, **options: Any) -> str:
    """Runs a command; raises with its output if it fails."""
    done = subprocess.run(
        command, text=True, capture_output=True, check=False, **{"timeout": 60, **options}
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
