"""An unmodified DDP script, with its backend as an argument, learns the same as over Gloo."""

import functools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import fork_all, reserved_port

SCRIPT = Path(__file__).parents[2] / "examples/ddp/train.py"
SIZE = 4
STEPS = 8


def run_script(rank: int, port: int, hosts: int, arguments: list[str], output: Path) -> None:
    """Becomes a rank as torchrun starts it, with its output in a file."""
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "LOCKSTEP_HOST_ID": f"host-{rank * hosts // SIZE}",
    }
    sys.stdout = output.open("a")
    sys.argv = [str(SCRIPT), *arguments]
    runpy.run_path(str(SCRIPT), run_name="__main__")


def losses(folder: Path, backend: str, hosts: int, *arguments: str) -> list[float]:
    output = folder / f"{backend}-{hosts}"
    words = ["--backend", backend, "--steps", str(STEPS), *arguments]
    with reserved_port() as port:
        outcomes = fork_all(
            [
                functools.partial(run_script, rank, port, hosts, words, output)
                for rank in range(SIZE)
            ]
        )
    assert [outcome.error for outcome in outcomes] == [None] * SIZE
    found = re.findall(r"^step \d+  loss (\S+)$", output.read_text(), re.MULTILINE)
    assert len(found) == STEPS
    return [float(loss) for loss in found]


@pytest.mark.parametrize(("dtype", "relative"), [("float64", 1e-10), ("float32", 1e-5)])
def test_its_losses_equal_those_over_gloo(
    dtype: str, relative: float, backend: str, tmp_path: Path
) -> None:
    expected = losses(tmp_path, "gloo", 1, "--dtype", dtype)
    for hosts in (1, 2):
        assert losses(tmp_path, backend, hosts, "--dtype", dtype) == pytest.approx(
            expected, rel=relative
        )


def test_data_may_be_loaded_by_forked_workers(backend: str, tmp_path: Path) -> None:
    without = losses(tmp_path, backend, 1)
    assert losses(tmp_path, backend, 2, "--workers", "2") == pytest.approx(without, rel=1e-5)


@pytest.mark.parametrize(
    "imports",
    [
        "import torch",
        "import torch, lockstep",
        "import lockstep, torch",
        "import lockstep.backend, torch",
    ],
)
def test_the_backend_is_known_whatever_was_imported(
    imports: str, backend: str, tmp_path: Path
) -> None:
    program = f"""
{imports}
import torch.distributed as dist
dist.init_process_group({backend!r}, init_method="file://{tmp_path}/store", rank=0, world_size=1)
total = torch.ones(3)
dist.all_reduce(total)
assert total.tolist() == [1, 1, 1]
print(dist.get_backend(), end="")
"""
    # The group is not destroyed: a program that just ends must still succeed.
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert (ended.stdout, ended.returncode) == (backend, 0), ended.stderr
