"""The processes of a run: the ports on which they listen, and the answers to a stranger."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cluster, wait_until

# Each rank prints the addresses, as /proc has them, at which a socket of its own listens.
SCRIPT = r"""
import os, re, sys, time
import torch
import torch.distributed as dist

LISTENING = "0A"
backend, folder, gate = sys.argv[1:]


def await_file(path):
    while not os.path.exists(path):
        time.sleep(0.02)


for turn in range(2):  # the second group finds the first one's port
    dist.init_process_group(backend)
    dist.all_reduce(torch.ones(1))
    if turn == 1:
        total = torch.ones(1)
        dist.all_reduce(total, group=dist.new_group([0, 1]))
        assert total.item() == 2
    mine = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
        mine |= {found[1]} if found else set()
    for table in ("tcp", "tcp6"):
        for line in open(f"/proc/self/net/{table}").readlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in mine:
                print("listens", fields[1].partition(":")[0], flush=True)
    dist.barrier()
    await_file(gate)
    dist.destroy_process_group()
    # Rank 1 would come too early for the next store, and meet the one that ends.
    if os.environ["RANK"] == "0":
        open(f"{folder}/over-{turn}", "w").close()
    await_file(f"{folder}/over-{turn}")
print("meets at", os.environ["LOCKSTEP_RENDEZVOUS"], os.environ["MASTER_PORT"])
print("done")
"""
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


def listening(lines: list[str]) -> set[str]:
    return {line.split()[-1] for line in lines if "listens" in line}


@pytest.mark.parametrize("backend", ["gloo", "lockstep"])
def test_nothing_of_a_run_listens_beyond_this_machine(
    cluster: Cluster, tmp_path: Path, backend: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = ["python", str(script), backend, str(tmp_path), str(script)]
    run = cluster.submit("-n", "2", "-g", "1", "--", *words)
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    lines = cluster.logs(run)
    assert sum("done" in line for line in lines) == 2
    assert listening(lines) and listening(lines) <= LOOPBACK, lines


# --- Hosts with addresses that others reach ---

MAP = """
pods:
  - name: pod
    leaves:
      - name: leaf
        hosts:
          - {id: one, address: 10.99.0.1, islands: [{devices: [{kind: core, count: 2}]}]}
          - {id: two, address: 10.99.0.2, islands: [{devices: [{kind: core, count: 2}]}]}
"""
NETWORK = """
ip link set lo up && ip address add 10.99.0.1/32 dev lo && ip address add 10.99.0.2/32 dev lo &&
echo ready && exec cat
"""
# Calls every listening socket of the run's hosts beyond loopback: as a client that sets a key in
# torch's store, and as one that knows the rendezvous protocol and asks to be forwarded.
STRANGER = r"""
import socket, struct
TORCH = struct.pack("<BIBQ6sQ1s", 9, 0x3C85F7CE, 0, 6, b"stolen", 1, b"x")
framed = lambda content: struct.pack(">I", len(content)) + content
FORWARD = framed(framed(b"1") + framed(b"F") + framed(b"") + framed(b""))
for line in open("/proc/self/net/tcp").readlines()[1:]:
    _, at, _, state, *_ = line.split()
    address, port = (bytes.fromhex(part) for part in at.split(":"))
    host = socket.inet_ntoa(address[::-1])
    if state != "0A" or host.startswith("127."):
        continue
    for words in (TORCH, FORWARD):
        with socket.create_connection((host, int.from_bytes(port, "big")), timeout=10) as call:
            try:
                call.sendall(words)
                call.shutdown(socket.SHUT_WR)
                answer = call.recv(100)
            except TimeoutError:
                raise
            except OSError:  # it closed the connection before it had read everything
                answer = b""
            print(host, int.from_bytes(port, "big"), answer)
"""


@pytest.fixture
def wired(idle: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Its hosts are 10.99.0.1 and 10.99.0.2, in a network of their own."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", NETWORK],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stderr is not None
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"needs a network of its own: {holder.stderr.read().strip()}")
        idle.within = ["nsenter", f"--target={holder.pid}", "--net"]
        file = tmp_path / "map.yaml"
        file.write_text(MAP)
        idle.ok("serve", "--map", str(file), "--detach")
        yield idle
        idle.close()
    finally:
        holder.communicate(timeout=30)  # the end of its input ends it


@pytest.mark.parametrize("backend", ["gloo", "lockstep"])
def test_between_hosts_the_store_of_torch_is_reached_with_the_secret_alone(
    wired: Cluster, tmp_path: Path, backend: str
) -> None:
    script, gate = tmp_path / "train.py", tmp_path / "gate"
    script.write_text(SCRIPT)
    words = ["-n", "2", "-g", "1", "--env", "GLOO_SOCKET_IFNAME=lo", "--"]
    run = wired.submit(*words, "python", str(script), backend, str(tmp_path), str(gate))
    wait_until("the ranks have met", lambda: listening(wired.logs(run)))
    called = subprocess.run(
        [*wired.within, sys.executable, "-c", STRANGER],
        text=True, capture_output=True, timeout=60, check=True,
    ).stdout.splitlines()  # fmt: skip
    gate.touch()
    assert wired.ended(run)["state"] == "succeeded", wired.logs(run)
    lines = wired.logs(run)
    assert sum("done" in line for line in lines) == 2
    assert listening(lines) <= LOOPBACK, lines
    meeting_place, store = next(line for line in lines if "meets at" in line).split()[-2:]
    host, _, port = meeting_place.rpartition(":")
    assert host == "10.99.0.1"
    assert f"{host} {port} b''" in called, "it answers nothing"
    assert not any(f" {store} " in line for line in called), "nothing listens there"


# --- Tokens ---

# A rank prints what it was given: its environment, its command line and its open files.
GIVEN = r"""
import os
print(repr(dict(os.environ)))
print(open("/proc/self/cmdline").read())
print(open("/proc/self/environ").read())
for number in os.listdir("/proc/self/fd"):
    try:
        print("file", os.readlink(f"/proc/self/fd/{number}"))
    except FileNotFoundError:
        continue
"""


def test_ranks_are_given_no_token(cluster: Cluster, tmp_path: Path) -> None:
    script, gate = tmp_path / "given.py", tmp_path / "gate"
    script.write_text(GIVEN + f"while not os.path.exists({str(gate)!r}): pass\n")
    run = cluster.submit("-n", "2", "-g", "1", "--", "python", "-u", str(script))
    ranks = cluster.running_ranks(run)
    nodes = [cluster.attempt_folder(run) / f"node-{index}" for index in range(2)]
    tokens = [json.loads((node / "launch.json").read_text())["token"] for node in nodes]
    tokens.append((cluster.home / "token").read_text().strip())
    keys = [(cluster.home / "key").read_text().strip()]
    command_lines = [Path(f"/proc/{rank['pid']}/cmdline").read_bytes() for rank in ranks]
    command_lines += [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in cluster.processes()]
    gate.touch()
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    given = "\n".join(cluster.logs(run))
    assert "LOCKSTEP_SECRET_FILE" in given and "file " in given
    for secret in [*tokens, *keys]:
        assert len(secret) == 64 and secret not in given
        assert not any(secret.encode() in words for words in command_lines)
    opened = [line for line in given.splitlines() if "file /" in line]
    for name in ("launch.json", "/token", "/key", "lockstep.db", "/tls/"):
        assert not any(name in line for line in opened), opened
    # Only their user reads what has a secret.
    for path in (*(node / "launch.json" for node in nodes), cluster.home / "token"):
        if path.exists():
            assert path.stat().st_mode & 0o077 == 0, path
