"""torchrun restarts the ranks of several agents, and they meet again over our backend."""

import os
import re
import subprocess
import sys
from pathlib import Path

from ranks import reserved_port

# In the first life rank 1 kills itself between two collectives. Torchrun's count of restarts does
# not tell the life: an agent that joins the restart of another one does not count it.
SCRIPT = """
import datetime, os, pathlib, signal, torch, torch.distributed as dist
dist.init_process_group("lockstep", timeout=datetime.timedelta(seconds=30))
rank, killed = dist.get_rank(), pathlib.Path(__file__).with_name("killed")
total = torch.full((1000,), 1.0)
for step in range(3):
    if (rank, step) == (1, 2) and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(total)
print(f"rank {rank} of {dist.get_world_size()}: {total[0].item()}", flush=True)
dist.destroy_process_group()
"""


def agent(port: int, script: Path, output: Path) -> subprocess.Popen[bytes]:
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=run"]
    # After the smallest number of nodes has come, torchrun waits for more, by default 30 seconds.
    waits = ["--rdzv-conf=last_call_timeout=1", "--monitor-interval=0.1"]
    command = [*rendezvous, *waits, "--nnodes=2:4", "--max-restarts=1", "--local-addr=127.0.0.1"]
    with output.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *command, str(script)],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def test_ranks_that_torchrun_restarts_meet_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    outputs = [tmp_path / "agent0", tmp_path / "agent1"]
    with reserved_port() as port:
        agents = [agent(port, script, output) for output in outputs]
        try:
            codes = [each.wait(timeout=60) for each in agents]
        finally:
            for each in agents:
                each.kill()
                each.wait()
    text = "".join(output.read_text() for output in outputs)
    assert codes == [0, 0], text
    # The survivor's error of the first life names the rank that died.
    assert re.search(r"DistBackendError: rank 1 \(host .*\) died", text), text
    ends = re.findall(r"^rank \d of 2: .*$", text, re.MULTILINE)
    assert sorted(ends) == ["rank 0 of 2: 8.0", "rank 1 of 2: 8.0"], text
