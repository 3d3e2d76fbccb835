"""The GPT example as a program: its exit, and its losses with each policy."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD, PATIENCE


def test_sigterm_ends_a_rank_that_still_waits_for_the_others(tmp_path: Path) -> None:
    data = tmp_path / "text.txt"
    data.write_text("Once upon a time. " * 1000)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(silent.getsockname()[1])}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
        rank = subprocess.Popen(
            [str(BUILD / "bin" / "gpt"), "train", "--data", str(data)],
            env={**environment, **place, "RANK": "1", "WORLD_SIZE": "2"},
        )
        try:
            connection, _ = silent.accept()  # from now on it waits for an answer
            rank.terminate()
            assert rank.wait(PATIENCE) == -signal.SIGTERM
            connection.close()
        finally:
            rank.kill()
            rank.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def trained_by(policy: str, data: Path, ranks: int) -> str:
    """The output of rank 0 for a few steps of a tiny model."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    sizes = "--steps 6 --batch 8 --micro-steps 2 --layers 3 --heads 2 --width 20 --context 16"
    command = [str(BUILD / "bin" / "gpt"), "train", "--data", str(data), "--policy", policy]
    processes = [
        subprocess.Popen(
            [*command, *sizes.split()],
            env={**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, said
    return said[0]


def held_out_loss(said: str) -> float:
    found = re.search(r"held-out loss (\d+\.\d+) nats", said)
    assert found, said
    return float(found[1])


def test_every_policy_learns_the_same(tmp_path: Path) -> None:
    data = tmp_path / "text.txt"
    data.write_text("Once upon a time. " * 1000)
    expected = held_out_loss(trained_by("ddp", data, 1))
    for policy in ("zero3", "mics:2+opt"):
        loss = held_out_loss(trained_by(policy, data, 4))
        assert loss == pytest.approx(expected, abs=0.01), policy
