"""The processes of a run: none of their sockets listens to other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cluster

# Each rank prints the addresses, as /proc has them, at which a socket of its own listens.
SCRIPT = r"""
import os, re, sys
import torch
import torch.distributed as dist

LISTENING = "0A"
for _ in range(2):  # the second group finds the first one's port
    dist.init_process_group(sys.argv[1])
    dist.all_reduce(torch.ones(1))
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
    dist.destroy_process_group()
print("done")
"""
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


@pytest.mark.parametrize("backend", ["gloo", "lockstep"])
def test_nothing_of_a_run_listens_beyond_this_machine(
    cluster: Cluster, tmp_path: Path, backend: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = cluster.submit("-n", "2", "-g", "1", "--", "python", str(script), backend)
    assert cluster.ended(run)["state"] == "succeeded", cluster.logs(run)
    lines = cluster.logs(run)
    assert sum("done" in line for line in lines) == 2
    listening = {line.split()[-1] for line in lines if "listens" in line}
    assert listening and listening <= LOOPBACK, lines
