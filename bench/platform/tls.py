"""The cost of TLS: one command, a new connection, and the daemon's load by agents, over both."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockstep"
ADDRESS = "10.99.2.1"  # in a network of its own
AGENTS = 50
SECONDS = 20
CALLS = 100
INSIDE = "--inside"


class Daemon:
    """A daemon that listens on an address for other machines."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.environment = os.environ | {"LOCKSTEP_HOME": str(home)}
        words = ["--hosts", f"{AGENTS}x1", "--listen", ADDRESS, "--detach"]
        self.lockstep("serve", *words, *options)
        file = json.loads((home / "daemon.json").read_text())
        self.pid = int(file["pid"])
        self.port = int(file["url"].partition("#")[0].rpartition(":")[2])

    def lockstep(self, *words: str) -> str:
        return subprocess.run(
            [str(PROGRAM), *words], env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load_by_agents(self) -> float:
        """The share of a core that it takes while agents report."""
        name = self.lockstep("run", "--detach", "-n", str(AGENTS), "--", "sleep", "1000")
        while json.loads(self.lockstep("show", name, "--json"))["state"] != "running":
            time.sleep(0.2)
        time.sleep(5)  # the agents have settled at their pace
        begun, before = time.monotonic(), self.cpu()
        time.sleep(SECONDS)
        share = (self.cpu() - before) / (time.monotonic() - begun)
        self.lockstep("stop", name)
        while json.loads(self.lockstep("show", name, "--json"))["ended"] is None:
            time.sleep(0.2)
        return share


def median_ms(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        begun = time.monotonic()
        call()
        taken.append(time.monotonic() - begun)
    return 1e3 * statistics.median(taken)


def connect(port: int, context: ssl.SSLContext | None) -> None:
    with socket.create_connection((ADDRESS, port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = context.wrap_socket(plain) if context else plain
        stream.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while stream.recv(4096):
            pass


def say(case: str, unit: str, ours: float, tls: bool) -> None:
    print(json.dumps({"bench": "tls", "case": case, "unit": unit, "ours": ours, "tls": tls}))


def measure(tls: bool) -> None:
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    daemon = Daemon(home, *([] if tls else ["--insecure"]))
    context = ssl.create_default_context() if tls else None
    if context:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        say("lockstep ps", "ms", median_ms(lambda: daemon.lockstep("ps")), tls)
        connection = median_ms(lambda: connect(daemon.port, context))
        say("a new connection with one call", "ms", connection, tls)
        before = daemon.cpu()
        for _ in range(10 * CALLS):
            connect(daemon.port, context)
        spent = 1e3 * (daemon.cpu() - before) / (10 * CALLS)
        say("the same, the daemon's processor time", "ms", spent, tls)
        say(f"the daemon while {AGENTS} agents report", "%", 100 * daemon.load_by_agents(), tls)
    finally:
        daemon.lockstep("serve", "--stop")
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench tls", description=__doc__)
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not parser.parse_args().inside:
        words = [sys.executable, __file__, INSIDE]
        return subprocess.run(["unshare", "--net", *words], check=False).returncode
    for words in (["link", "set", "lo", "up"], ["address", "add", f"{ADDRESS}/32", "dev", "lo"]):
        subprocess.run(["ip", *words], check=True)
    for tls in (False, True):
        measure(tls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
