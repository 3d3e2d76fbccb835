"""`lockstep flight`: recorded collectives of ranks, from files as a rank writes them."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import PATIENCE, PROGRAM

SECOND = 1_000_000_000
BEGIN = 1_800_000_000 * SECOND
OPERATIONS = (b"barrier", b"all_gather")
BARRIER, ALL_GATHER = range(2)
STARTED, DONE = 1, 2
SEND_DATA = 3  # what a rank waits for
SLOT = 144  # bytes
NONE = 0xFFFFFFFF


@dataclass
class Call:
    sequence: int
    operation: int
    state: int
    started: int  # seconds from the beginning
    label: bytes = b""
    waits_for: int = NONE


def slot(number: int, call: Call) -> bytes:
    codes = call.state | call.operation << 8 | 0xFFFF << 16 | NONE << 32
    at = (call.started + 1) * SECOND
    times = (at, at, at + SECOND if call.state == DONE else 0, at)
    words = struct.pack(
        "<7Q", 2, number, call.sequence, 4096, 0, codes, NONE | call.waits_for << 32
    )
    return words + struct.pack("<4Q24s4Q", *times, call.label, SEND_DATA, 0, 0, 0)


def record(rank: int, calls: list[Call]) -> bytes:
    """A tick is a nanosecond from a second before the beginning."""
    header = struct.pack("<8sIIiiIIQd", b"LSFLIGHT", 2, 4096, rank, 2, 1 + rank, 0, 1, 1.0)
    header += struct.pack("<4Q", 2, SECOND, SECOND, BEGIN) + bytes(32) + bytes(8)
    header += struct.pack("<128s128s64s", b"world", b"host-a", b"elsewhere")
    header += b"".join(name.ljust(16, b"\0") for name in OPERATIONS)
    slots = b"".join(slot(number, call) for number, call in enumerate(calls, 1))
    return (header.ljust(4096, b"\0") + slots).ljust(4096 + 4096 * SLOT, b"\0")


def one_behind(folder: Path) -> None:
    """Rank 1 has left the barrier and did not come to the next call."""
    gather = Call(8, ALL_GATHER, STARTED, 10, b"layers.6", waits_for=1)
    barrier = Call(7, BARRIER, DONE, 2)
    (folder / "rank-0.world.flight").write_bytes(record(0, [barrier, gather]))
    (folder / "rank-1.world.flight").write_bytes(record(1, [barrier]))


def flight(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "flight", *words],
        env=os.environ | {"LOCKSTEP_HOME": "/nonexistent"},
        text=True,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


VERDICT = (
    "rank 0 is at #8 all_gather(layers.6, 4.0 KiB); rank 1 has not entered #8 "
    "all_gather(layers.6, 4.0 KiB), last seen 7s ago after #7 barrier(4.0 KiB)"
)


def test_it_says_who_holds_up_whom_and_shows_the_calls(tmp_path: Path) -> None:
    one_behind(tmp_path)
    done = flight(tmp_path)
    assert done.returncode == 0, done.stderr
    first, _, header, *rows = done.stdout.rstrip().split("\n")
    assert first == f"group world, 2 ranks: {VERDICT}"
    assert header.split() == ["OPERATION", "RANK", "0", "RANK", "1", "ENTERED", "LAST"]
    assert rows[0].split("  ", 1)[0] == "#7 barrier(4.0 KiB)"
    assert "waits 0s for 1" in rows[1] and len(rows) == 2


def test_json_has_the_same_with_every_time(tmp_path: Path) -> None:
    one_behind(tmp_path)
    (group,) = json.loads(flight(tmp_path, "--json", "--last", "1").stdout)["groups"]
    assert group["verdict"] == VERDICT
    assert [rank["process"] for rank in group["ranks"]] == ["unknown", "unknown"]
    (gather,) = group["collectives"]
    assert gather["ranks"][0]["started"] == "2027-01-15T08:00:10Z"


def test_a_trace_has_a_track_for_each_rank(tmp_path: Path) -> None:
    one_behind(tmp_path)
    trace = tmp_path / "trace.json"
    assert flight(tmp_path, "--trace", trace).returncode == 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert [event["name"] for event in events if event["ph"] == "X"] == [
        "barrier",
        "all_gather layers.6",
        "barrier",
    ]


def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    one_behind(tmp_path)
    (tmp_path / "rank-1.world.flight").write_bytes(b"LSFLIGHT")
    done = flight(tmp_path)
    assert done.returncode == 0
    assert "rank-1.world.flight" in done.stderr and "8 bytes" in done.stderr
    assert "there is no record of rank 1" in done.stdout


def test_a_folder_without_records_is_refused_with_the_remedy(tmp_path: Path) -> None:
    done = flight(tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "LOCKSTEP_FLIGHT_DIR" in done.stderr
    assert flight(tmp_path / "missing").returncode == 2
    (tmp_path / "rank-0.world.flight").write_bytes(b"")
    assert "0 bytes" in flight(tmp_path).stderr


# Rank 1 stops after one all-reduce; rank 0 calls a second one. Both then dump, as a watchdog does.
TORCH_RANKS = """
import os, sys, torch, torch.distributed as dist
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
rank = 1 if os.fork() == 0 else 0
store = dist.FileStore(sys.argv[1] + "/.store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
ones = torch.ones(1024)
dist.all_reduce(ones)
if rank == 0:
    under_way = dist.all_reduce(ones, async_op=True)
with open(f"{sys.argv[1]}/nccl_trace_rank_{rank}", "wb") as file:
    file.write(torch._C._distributed_c10d._dump_fr_trace())
store.set(f"dumped-{rank}", "")
store.wait([f"dumped-{1 - rank}"])
if rank == 0:
    os.wait()
os._exit(0)
"""


def test_it_reads_what_torch_itself_has_recorded(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TORCH_RANKS, tmp_path], check=True, timeout=PATIENCE)
    shown = flight(tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "group world of torch, 2 ranks: rank 0 is at #2 all_reduce(" in shown.stdout
    assert "rank 1 has not entered #2 all_reduce(" in shown.stdout
    report = json.loads(flight(tmp_path, "--json").stdout)
    assert [group["group"] for group in report["groups"]] == ["world of torch"]
    first = report["groups"][0]["collectives"][0]
    assert (first["type"], first["bytes"]) == ("float32", 4096)
    assert [each["state"] for each in first["ranks"]] == ["done", "done"]


def test_it_reads_dumps_and_own_records_of_one_folder(tmp_path: Path) -> None:
    one_behind(tmp_path)
    entry = {
        "process_group": ("4", "undefined"),
        "collective_seq_id": 1,
        "profiling_name": "nccl:broadcast",
        "state": "scheduled",
        "time_created_ns": BEGIN + 12 * SECOND,
    }
    groups = {"4": {"name": "4", "desc": "undefined", "ranks": "[0, 1]"}}
    dump = {"version": "2.10", "pg_config": groups, "entries": [entry]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump, protocol=2))
    shown = flight(tmp_path).stdout
    assert "group world, 2 ranks: " in shown
    assert "torch's group 4: ranks 0, 1: " in shown


def test_a_dump_that_calls_a_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(subprocess.run, protocol=2))
    shown = flight(tmp_path)
    assert shown.returncode != 0
    assert "nccl_trace_rank_0 is no dump of torch's flight recorder: byte 2" in shown.stderr
