"""One host of the testbed: it boots, reboots, loses its power and its network as a machine does."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hosts.sandbox import BRIDGE, LOGIN_ADDRESS, Sandbox, descendants, run

from tests.conftest import wait_until

REBOOT_STATUS = 133  # of systemd-nspawn, when the host asks to be started again
BOOT_PATIENCE = 60.0
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Host:
    """Made by Testbed. `root` is its file system inside the sandbox."""

    def __init__(
        self, sandbox: Sandbox, name: str, root: Path, binds: list[str], ssh: list[str]
    ) -> None:
        self.name = name
        self.address = ""
        self.others: list[str] = []  # the addresses of all that it can reach
        self._sandbox = sandbox
        self._root = root
        self._binds = binds  # options of systemd-nspawn
        self._ssh = ssh
        self._machine: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._console = root.parent / "console.log"

    # Its life

    def boot(self) -> None:
        """Starts it, and returns when its user can log in."""
        self.start()
        self.await_login()

    def start(self) -> None:
        assert self._machine is None, f"{self.name} runs already"
        groups = [str(path) for path in self._sandbox.groups.make(self.name)]
        enter = f'for group in {shlex.join(groups)}; do echo $$ >"$group"; done; exec "$@"'
        machine = [
            "systemd-nspawn", "--boot", "--quiet", f"--directory={self._root}",
            f"--machine={self.name}", "--register=no", "--keep-unit", "--link-journal=no",
            "--network-veth", f"--network-bridge={BRIDGE}", "--resolv-conf=off", "--timezone=off",
            "--console=pipe", *self._binds, "systemd.show_status=no",
        ]  # fmt: skip
        with self._sandbox.seen_from_outside(self._console).open("ab") as console:
            self._machine = subprocess.Popen(
                ["sh", "-c", enter, "sh", *self._sandbox.inside, *machine],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )

    def await_login(self) -> None:
        assert self._machine is not None
        machine = self._machine
        self._leader = wait_until(f"{self.name} boots\n{self.console()}", self._find_leader)
        wait_until(
            f"{self.name} lets its user in",
            lambda: machine.poll() is None and self.command("true").returncode == 0,
            BOOT_PATIENCE,
        )

    def reboot(self) -> None:
        """In order, as `systemctl reboot`; returns when its user can log in again."""
        self.as_root("systemctl reboot --no-block")
        assert self._ended() == REBOOT_STATUS, self.console()
        self.boot()

    def power_off(self) -> None:
        """As if its plug was pulled: every process ends at once; files stay."""
        os.kill(self._leader, signal.SIGKILL)
        self._ended()

    def is_running(self) -> bool:
        return self._machine is not None

    # Commands

    def command(
        self, words: str, user: str = "ann", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs a shell command over SSH; never raises for its exit status."""
        return subprocess.run(
            [*self._ssh, f"{user}@{self.name}", words],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def run(self, words: str, user: str = "ann", timeout: float = 60) -> str:
        """Runs a shell command over SSH; raises with its output if it fails."""
        done = self.command(words, user, timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def as_root(self, words: str) -> str:
        """Runs a shell command as root, without network and SSH."""
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        return run("nsenter", f"--target={self._leader}", *namespaces, "sh", "-c", words)

    def file(self, path: str) -> Path:
        """A file of the host as this machine sees it; /dev, /tmp, /run and /shared excepted."""
        return self._sandbox.seen_from_outside(self._root / path.lstrip("/"))

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()

    def processes(self) -> list[int]:
        """All processes of the host, by the ids of this machine."""
        if not self._leader:
            return []
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"/proc/{self._leader}/ns/pid")
            return [int(entry.name) for entry in Path("/proc").iterdir() if in_(entry, namespace)]
        return []

    # Its network

    def link_down(self) -> None:
        """Pulls the network cable: both sides see it."""
        self._sandbox.run("ip", "link", "set", f"vb-{self.name}", "down")

    def link_up(self) -> None:
        self._sandbox.run("ip", "link", "set", f"vb-{self.name}", "up")

    def drop(self, *others: Host | str) -> None:
        """Drops packets in both ways, and tells neither side. The others are hosts, or "login",
        the machine of the test; without them: everything."""
        for pair in self._pairs(others):
            self._sandbox.run("nft", "add", "element", "bridge", "cut", "pairs", f"{{ {pair} }}")

    def undrop(self, *others: Host | str) -> None:
        for pair in self._pairs(others):
            self._sandbox.run("nft", "delete", "element", "bridge", "cut", "pairs", f"{{ {pair} }}")

    def _pairs(self, others: tuple[Host | str, ...]) -> Iterator[str]:
        addresses = [LOGIN_ADDRESS if isinstance(each, str) else each.address for each in others]
        for address in addresses or self.others:
            yield f"{self.address} . {address}"
            yield f"{address} . {self.address}"

    # Its troubles

    def set_clock(self, offset: int) -> None:
        """Shows another time to SSH logins and to services that start from now on, until the next
        boot. `offset` is in seconds; 0: the true time."""
        fake = f"LD_PRELOAD={FAKETIME} FAKETIME={offset:+d}s FAKETIME_DONT_FAKE_MONOTONIC=1"
        drop_in = "/run/sshd-clock.conf"
        if offset:
            self.as_root(f"systemctl set-environment {fake}; echo 'SetEnv {fake}' >{drop_in}")
        else:
            names = "LD_PRELOAD FAKETIME FAKETIME_DONT_FAKE_MONOTONIC"
            self.as_root(f"systemctl unset-environment {names}; rm -f {drop_in}")
        self.as_root("systemctl reload ssh")

    @contextmanager
    def small_disk(self, folder: str, mib: int) -> Iterator[None]:
        """A disk of its own at `folder`, which belongs to ann."""
        options = f"size={mib}m,uid=$(id -u ann),gid=$(id -g ann),mode=0755"
        self.as_root(f"mkdir -p {folder} && mount -t tmpfs -o {options} small {folder}")
        try:
            yield
        finally:
            self.as_root(f"umount --lazy {folder}")

    def console(self) -> str:
        """Its output while it booted."""
        with contextlib.suppress(OSError):
            log = self._sandbox.seen_from_outside(self._console)
            return log.read_text(errors="replace")[-4000:]
        return ""

    # Inside

    def _find_leader(self) -> int:
        assert self._machine is not None
        for pid in descendants(self._machine.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                    return pid
        return 0

    def _ended(self) -> int:
        assert self._machine is not None
        status = self._machine.wait(timeout=BOOT_PATIENCE)
        self._machine = None
        self._leader = 0
        return status


def in_(entry: Path, namespace: str) -> bool:
    try:
        return entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace
    except OSError:
        return False
