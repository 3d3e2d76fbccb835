"""The GPT example as a program: how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

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
