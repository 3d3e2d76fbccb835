"""Hosts that are network namespaces of this machine, joined by a bridge whose wires are shaped.

    with Network(4, RATES["1gbit"]) as network:
        network.hosts[0].run("ip", "address")

Each host has one interface, eth0 with 10.77.0.(1 + number), whose wire to the bridge carries the
rate in each direction. The namespaces have no names: each lives as long as a process that holds it,
which ends with this one however that ends. So nothing is left behind, and two networks at once do
not conflict. Memory is not divided: ranks that must not share it have different host ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from .closeable import Closeable

INTERFACE = "eth0"
WAIT_SECONDS = 20.0
# The bridge learns the hosts' ports; without spanning tree it forwards at once.
BRIDGE = ("ip", "link", "add", "bridge0", "type", "bridge", "stp_state", "0")


class Unavailable(Exception):
    """This machine cannot have such a network; the message has the reason and a remedy."""


@dataclass(frozen=True)
class Rate:
    """A token bucket; its burst is sent at full speed after a pause, so it must be small."""

    name: str
    bits: float  # a second
    burst: str
    latency: str  # what waits longer is dropped

    @property
    def payload(self) -> float:
        """Bits a second that are left of it for TCP, which says 1448 bytes in a frame of 1514."""
        return self.bits * 1448 / 1514

    def shaping(self, device: str) -> tuple[str, ...]:
        bucket = ("rate", self.name, "burst", self.burst, "latency", self.latency)
        return ("tc", "qdisc", "add", "dev", device, "root", "tbf", *bucket)


RATES = {
    "1gbit": Rate("1gbit", 1e9, "256kb", "20ms"),
    "10gbit": Rate("10gbit", 1e10, "1mb", "5ms"),
}


class Namespace(Closeable):
    """A network namespace; it lives as long as its process, which ends at end of file."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to this process, which may still need it
            text=True,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if not self._holder.stdout.readline():
            reason = self._holder.stderr.read().strip()
            self.close()
            raise Unavailable(f"no network namespace can be made: {reason}")
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> str:
        return str(self._holder.pid)

    @property
    def path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def within(self, *command: str) -> list[str]:
        """The command that runs this command in the namespace."""
        return ["nsenter", f"--net={self.path}", "--", *command]

    def run(self, *command: str) -> str:
        ended = subprocess.run(
            self.within(*command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            raise Unavailable(f"'{' '.join(command)}' failed: {ended.stderr.strip()}")
        return ended.stdout

    def await_link(self, device: str) -> None:
        """The kernel reports a link a moment after both of its ends are up."""
        deadline = time.monotonic() + WAIT_SECONDS
        while json.loads(self.run("ip", "-json", "link", "show", device))[0]["operstate"] != "UP":
            if time.monotonic() > deadline:
                raise Unavailable(f"{device} does not come up")
            time.sleep(0.01)

    def close(self) -> None:
        assert self._holder.stdin is not None
        with contextlib.suppress(OSError):
            self._holder.stdin.close()
        self._holder.wait(WAIT_SECONDS)


class Host(Namespace):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.address = f"10.77.0.{number + 1}"

    def sent_bytes(self) -> int:
        """The bytes that its interface has sent so far, with all headers."""
        shown = json.loads(self.run("ip", "-json", "-stats", "link", "show", INTERFACE))
        return int(shown[0]["stats64"]["tx"]["bytes"])


class Network(Closeable):
    def __init__(self, hosts: int, rate: Rate | None) -> None:
        check_machine()
        self.rate = rate
        self.hosts: list[Host] = []
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as unfinished:
            unfinished.callback(self.close)
            self._build(hosts)
            unfinished.pop_all()

    def close(self) -> None:
        self._opened.close()

    def goodput(self, seconds: int = 2) -> float:
        """Bits a second that iperf3 carries from the first host to the second, over TCP."""
        sender, receiver = self.hosts[0], self.hosts[1]
        listen = receiver.within("iperf3", "--server", "--one-off", "--forceflush")
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                for line in server.stdout:
                    if "listening" in line:
                        break
                words = ["--client", receiver.address, "--time", str(seconds), "--json"]
                shown = sender.run("iperf3", *words)
                server.wait(WAIT_SECONDS)
            finally:
                server.kill()
        return float(json.loads(shown)["end"]["sum_received"]["bits_per_second"])

    def _build(self, hosts: int) -> None:
        switch = self._opened.enter_context(Namespace())
        switch.run(*BRIDGE)
        switch.run("ip", "link", "set", "bridge0", "up")
        for number in range(hosts):
            host = self._opened.enter_context(Host(number))
            self.hosts.append(host)
            self._connect(switch, f"port{number}", host)
        for host in self.hosts:
            host.await_link(INTERFACE)

    def _connect(self, switch: Namespace, port: str, host: Host) -> None:
        other_end = ("peer", "name", INTERFACE, "netns", host.pid)
        switch.run("ip", "link", "add", port, "type", "veth", *other_end)
        switch.run("ip", "link", "set", port, "master", "bridge0", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", INTERFACE)
        host.run("ip", "link", "set", INTERFACE, "up")
        if self.rate is not None:
            switch.run(*self.rate.shaping(port))
            host.run(*self.rate.shaping(INTERFACE))


def check_machine() -> None:
    """Raises Unavailable, with the remedy, where networks cannot be created."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root: run it by sudo, or in a container of root")
    for program in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise Unavailable(f"there is no {program}: install iproute2 and util-linux")
    if not Path("/proc/self/ns/net").exists():
        raise Unavailable("this kernel has no network namespaces")
