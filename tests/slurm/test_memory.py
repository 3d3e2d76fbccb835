"""A Slurm that ends steps which use more memory than they were given."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.conftest import SlurmCluster
from tests.slurm.testbed import Slurm, make_folder

from tests.conftest import wait_until

# A site with cgroups lets the kernel end processes instead (tests of the agent have that).
LIMITS = {
    "SelectTypeParameters": "CR_Core_Memory",
    "JobAcctGatherType": "jobacct_gather/linux\nJobAcctGatherParams=OverMemoryKill\n"
    "JobAcctGatherFrequency=task=1",
}
TAKE_MEMORY = "import time; all = [b'x' * (10 << 20) for _ in range(60)]; time.sleep(60)"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[SlurmCluster]:
    if os.geteuid() != 0 or not Path("/usr/sbin/slurmctld").exists():
        pytest.skip("needs root and tools/apt-packages-tests.txt")
    folder = make_folder()
    slurm = Slurm(folder, ("n1", "n2"), LIMITS)
    cluster = SlurmCluster(tmp_path, slurm)
    try:
        slurm.start()
        cluster.start()
        yield cluster
        cluster.close()
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_run_that_takes_too_much_memory_says_so(strict: SlurmCluster, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"""
nodes: 2
needs: {{memory: 200MiB}}
rank_loss_retries: 0
command: [sh, -c, "test $RANK = 0 && exec {sys.executable} -c \\"{TAKE_MEMORY}\\"; sleep 60"]
""")
    run = strict.submit(str(file))
    view = strict.ended(run)
    assert view["state"] == "failed"
    assert "out of memory" in view["reason"], view
    assert view["attempts"][-1]["cause"] == "oom"
    assert "`needs: memory`" in view["reason"]
    wait_until("Slurm has no job any more", lambda: not strict.jobs())
