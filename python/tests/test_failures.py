"""The errors that a rank gets when a peer fails or its own call is wrong."""

import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks, run_ranks_to_the_end

VICTIM = 2


def loop_until_a_peer_dies(rank: int) -> float:
    """Returns the seconds from the peer's death to the error that names it."""
    tensor = torch.ones(100_000)
    dist.all_reduce(tensor)
    dist.barrier()
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(dist.DistBackendError, match=f"rank {VICTIM}"):
        while True:
            dist.all_reduce(tensor)
    return time.monotonic() - started


def test_a_rank_that_dies_is_named_within_seconds(hosts: int) -> None:
    outcomes = run_ranks_to_the_end(4, loop_until_a_peer_dies, hosts=hosts)
    assert outcomes[VICTIM].exit_code == -signal.SIGKILL
    for rank in {0, 1, 3}:
        assert outcomes[rank].error is None, outcomes[rank].error
        assert outcomes[rank].value < 10  # a wait would take 20 seconds


def wait_for_a_rank_that_never_comes(rank: int) -> float:
    if rank == 1:
        dist.barrier(group=dist.new_group(backend="gloo"))
        return 0
    other = dist.new_group(backend="gloo")
    started = time.monotonic()
    # " Timed out " is what programs look for, which other backends say.
    with pytest.raises(dist.DistBackendError, match=r" Timed out .*rank 0 timed out: .*rank 1"):
        dist.all_reduce(torch.ones(3))
    waited = time.monotonic() - started
    dist.barrier(group=other)
    return waited


def test_a_wait_ends_with_the_groups_time_out(hosts: int) -> None:
    waited, _ = run_ranks(2, wait_for_a_rank_that_never_comes, hosts=hosts, timeout=2)
    assert 1.5 < waited < 10  # by default it would take 20 seconds


def wait_in_a_group_of_two(rank: int, socket_path: str) -> tuple[str, str]:
    """The error that rank 1 gets when rank 3 does not come, and the report that its agent gets."""
    pair = dist.new_group([1, 3], timeout=datetime.timedelta(seconds=1))
    other = dist.new_group(backend="gloo")
    error = told = ""
    if rank == 1:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.bind(socket_path)
            agent.listen()
            os.environ["LOCKSTEP_REPORT"] = socket_path
            with pytest.raises(dist.DistBackendError) as raised:
                dist.barrier(group=pair)
            error = str(raised.value)
            caller, _ = agent.accept()
            told = caller.recv(4096).decode()
    dist.barrier(group=other)
    return error, told


def test_ranks_of_a_sub_group_have_their_numbers_in_the_run(tmp_path: Path) -> None:
    error, told = run_ranks(4, wait_in_a_group_of_two, str(tmp_path / "report"))[1]
    assert "rank 3 has not entered #1 barrier" in error, error
    assert "rank 1 was in barrier #1 of group of ranks 1, 3" in error, error
    report = json.loads(told)
    assert (report["kind"], report["fault"], report["rank"]) == ("fault", "timed_out", 3)
    assert report["text"] in error


def call_what_the_others_do_not(rank: int) -> str:
    with pytest.raises(dist.DistBackendError, match="do not match"):
        # all have arrived; a rank that is slow to leave gets the error of the others' calls here
        dist.barrier()
        dist.all_reduce(torch.ones(3 + rank // 3))
    with pytest.raises(dist.DistBackendError) as later:
        dist.barrier()
    return str(later.value)


def test_all_ranks_raise_the_same_when_calls_do_not_match(hosts: int) -> None:
    said = run_ranks(4, call_what_the_others_do_not, hosts=hosts)
    # The first of the ranks that call it in time is named.
    words = r"rank [012] called all_reduce\(float32 sum, 12 bytes\), rank 3 called all_reduce"
    assert re.search(words, said[0])
    assert said == said[:1] * 4


def receive_what_nobody_sends(rank: int) -> None:
    if rank == 0:
        work = dist.irecv(torch.empty(3), 1)
        assert work is not None
        with pytest.raises(dist.DistBackendError, match="recv"):
            work.wait(timeout=datetime.timedelta(milliseconds=200))
        assert not work.is_completed()
    dist.barrier()
    if rank == 1:
        dist.send(torch.ones(3), 0)


def test_a_wait_may_have_a_time_out_of_its_own() -> None:
    run_ranks(2, receive_what_nobody_sends)


def calls_that_are_refused(rank: int) -> None:
    complex_pair = torch.ones(2, dtype=torch.complex64)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: dist.all_reduce(complex_pair, dist.ReduceOp.MAX), "complex"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.AVG), "AVG"),
        (lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BXOR), "BXOR"),
        (lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)), "4 elements"),
        (lambda: dist.reduce_scatter_tensor(torch.ones(3), torch.ones(5)), "6 elements"),
    ]
    for call, word in wrong:
        with pytest.raises((RuntimeError, ValueError, TypeError, NotImplementedError), match=word):
            call()
    # None of them left the group in an inconsistent state.
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == 2


def test_a_call_that_makes_no_sense_is_refused_and_harms_nothing() -> None:
    run_ranks(2, calls_that_are_refused)


def end_with_calls_under_way(rank: int) -> None:
    tensor = torch.ones(1_000_000)
    for _ in range(20):
        dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        dist.irecv(torch.empty(5), 1)


def test_a_group_is_destroyed_with_calls_under_way(hosts: int) -> None:
    run_ranks(2, end_with_calls_under_way, hosts=hosts)


def make_and_destroy(rank: int) -> None:
    for _ in range(10):
        group = dist.new_group()
        total = torch.ones(10)
        dist.all_reduce(total, group=group)
        assert total[0].item() == 2
        dist.destroy_process_group(group)


def test_groups_come_and_go() -> None:
    run_ranks(2, make_and_destroy)


@pytest.mark.parametrize("imports", ["import lockstep, torch", "import torch"])
def test_a_script_that_no_launcher_has_started_is_told_what_to_type(
    imports: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f'{imports}\ntorch.distributed.init_process_group("lockstep")\n')
    launched = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    done = subprocess.run(
        [sys.executable, str(script), "--steps", "3"],
        env={name: value for name, value in os.environ.items() if name not in launched},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"Type: torchrun --nproc-per-node 2 {script} --steps 3 " in last
    assert f"or: lockstep run -g 2 -- python {script} --steps 3 " in last
    assert "RANK expected, but not set" in last


def test_the_programs_signal_handlers_stay_its_own() -> None:
    program = """
import os, signal, torch.distributed as dist
signal.signal(signal.SIGTERM, lambda *_: print("saved"))
dist.init_process_group("lockstep", store=dist.HashStore(), rank=0, world_size=1)
os.kill(os.getpid(), signal.SIGTERM)
dist.destroy_process_group()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "saved\n"), done.stderr
