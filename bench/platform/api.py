"""Calls of the daemon on one connection, alone and while 200 agents report, and log-ins."""

from __future__ import annotations

import argparse
import ctypes
import http.client
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockstep"
SECONDS = 10
AGENTS = 200
LOGINS = 40
TOKENS = 1000
TOKEN_CALLS = 4000
PASSWORD = b"a password of the benchmark"


class Daemon:
    """A daemon with its own home, which presents this machine as many hosts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = os.environ | {"LOCKSTEP_HOME": str(home)}
        self.lockstep("serve", "--hosts", f"{AGENTS}x1", "--detach")

    def lockstep(self, *words: str) -> str:
        return subprocess.run(
            [str(PROGRAM), *words], env=self.environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def run(self, nodes: int) -> str:
        """Starts a run of so many nodes that only wait, and returns when they run."""
        words = ["--project", "demo", "-n", str(nodes), "-g", "1", "--", "sleep", "1000"]
        name = self.lockstep("run", "--detach", *words)
        while json.loads(self.lockstep("show", name, "--json"))["state"] != "running":
            time.sleep(0.2)
        return name

    def stop(self, name: str) -> None:
        self.lockstep("stop", name)
        while json.loads(self.lockstep("show", name, "--json"))["ended"] is None:
            time.sleep(0.2)

    def times(self, target: str) -> list[float]:
        """The seconds of each of the calls, made one after another."""
        url = urlsplit(json.loads((self.home / "daemon.json").read_text())["url"])
        token = (self.home / "token").read_text().strip()
        connection = http.client.HTTPConnection(f"{url.hostname}:{url.port}", timeout=30)
        taken = []
        end = time.monotonic() + SECONDS
        while (begun := time.monotonic()) < end:
            connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            taken.append(time.monotonic() - begun)
        return sorted(taken)


def say(case: str, unit: str, ours: float, **parameters: int) -> None:
    print(json.dumps({"bench": "api", "case": case, "unit": unit, "ours": ours, **parameters}))


def measure(daemon: Daemon, agents: int) -> None:
    name = daemon.run(agents)
    try:
        taken = daemon.times("/api/v1/runs/demo/1")
    finally:
        daemon.stop(name)  # agents outlive their daemon
    say("GET one run, kept connection", "requests/s", len(taken) / SECONDS, agents=agents)
    say("GET one run, 99th percentile", "ms", 1e3 * taken[len(taken) * 99 // 100], agents=agents)


def log_in_seconds(daemon: Daemon, user: str) -> float:
    url = urlsplit(json.loads((daemon.home / "daemon.json").read_text())["url"])
    body = json.dumps({"user": user, "password": PASSWORD.decode()})
    connection = http.client.HTTPConnection(f"{url.hostname}:{url.port}", timeout=30)
    connection.connect()
    begun = time.monotonic()
    connection.request("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    return time.monotonic() - begun


def hash_seconds(sodium: ctypes.CDLL, stored: bytes) -> float:
    begun = time.monotonic()
    assert sodium.crypto_pwhash_str_verify(stored, PASSWORD, ctypes.c_ulonglong(len(PASSWORD))) == 0
    return time.monotonic() - begun


def measure_logins(daemon: Daemon) -> None:
    """Log-ins and hashes take turns, so that other work of the machine slows both."""
    first = daemon.lockstep("user", "add", "ann", "--password").split("password ")[-1].split()[0]
    own, once = daemon.home / "own", daemon.home / "once"
    own.write_bytes(PASSWORD)
    once.write_text(first)
    url = json.loads((daemon.home / "daemon.json").read_text())["url"]
    daemon.environment["XDG_CONFIG_HOME"] = str(daemon.home / "config")
    files = ("--password-file", str(once), "--new-password-file", str(own))
    daemon.lockstep("login", url, "bench", "--user", "ann", *files)
    with sqlite3.connect(f"file:{daemon.home / 'lockstep.db'}?mode=ro", uri=True) as database:
        (stored,) = database.execute("select password_hash from users where name='ann'").fetchone()
    sodium = ctypes.CDLL("libsodium.so.23")
    assert sodium.sodium_init() >= 0
    log_ins, hashes = [], []
    for _ in range(LOGINS):
        log_ins.append(log_in_seconds(daemon, "ann"))
        hashes.append(hash_seconds(sodium, stored.encode()))
    took, hash_took = statistics.median(log_ins), statistics.median(hashes)
    say("log-in by password, median", "ms", 1e3 * took)
    say("the same without its argon2 hash", "ms", 1e3 * (took - hash_took))


def measure_token_checks(daemon: Daemon) -> None:
    """Calls with a user's token and without one take turns, while the daemon has many tokens."""
    state = json.loads((daemon.home / "daemon.json").read_text())
    url = urlsplit(state["url"])
    own = (daemon.home / "token").read_text().strip()
    connection = http.client.HTTPConnection(f"{url.hostname}:{url.port}", timeout=30)

    def call(method: str, target: str, token: str | None, body: str | None = None) -> bytes:
        headers = {"Content-Type": "application/json"} if body else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def make_token(number: int) -> str:
        words = json.dumps({"name": f"token {number}", "user": f"user-{number % 10}"})
        return str(json.loads(call("POST", "/api/v1/tokens", own, words))["token"])

    for number in range(10):
        call("POST", "/api/v1/users", own, json.dumps({"name": f"user-{number}"}))
    token = [make_token(number) for number in range(TOKENS)][TOKENS // 2]
    taken: dict[str | None, list[float]] = {token: [], None: []}
    for _ in range(TOKEN_CALLS):
        for each, times in taken.items():
            begun = time.perf_counter()
            call("GET", "/api/v1/whoami" if each else "/health", each)
            times.append(time.perf_counter() - begun)
    with_token, without = (statistics.median(times) for times in taken.values())
    say("a call with a user's token, median", "ms", 1e3 * with_token, tokens=TOKENS)
    say("the same without a call that needs no token", "ms", 1e3 * (with_token - without))


@contextmanager
def daemon_in(folder: str | None) -> Iterator[Daemon]:
    """A daemon with its home there; none: in the usual folder for temporary files."""
    home = Path(tempfile.mkdtemp(prefix="lockstep-bench-", dir=folder))
    daemon = Daemon(home)
    try:
        yield daemon
    finally:
        daemon.lockstep("serve", "--stop")
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    argparse.ArgumentParser(prog="./dev bench api", description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with daemon_in("/dev/shm") as daemon:  # so that no disk is measured
        measure_token_checks(daemon)
        measure_logins(daemon)
    with daemon_in(None) as daemon:
        measure(daemon, 1)
        measure(daemon, AGENTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
