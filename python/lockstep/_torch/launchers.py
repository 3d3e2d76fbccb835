"""Torch's rendezvous by environment variables, for ranks of launchers that do not set them.

srun and mpirun say which rank a process is, but not where the ranks meet. Before torch reads the
environment, the ranks agree on that (docs/design/launchers.md), and it is as under torchrun.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from lockstep._compiled import communication

# Set by the script, or by a launcher that makes the ranks meet itself.
_TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Set by the launchers that the compiled part knows.
_LAUNCHER_VARIABLES = ("SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LAUNCHER_SIZES = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_TIMEOUT = timedelta(minutes=10)


def launched_ranks() -> int:
    """How many ranks srun or mpirun has started together with this process; 1 without them."""
    sizes = (os.environ.get(name, "") for name in _LAUNCHER_SIZES)
    return max((int(size) for size in sizes if size.isdecimal()), default=1)


def patch_torch(handlers: dict[str, Callable[..., Iterator[Any]]]) -> None:
    """Replaces torch's rendezvous handler of ``env://``. Further calls do nothing."""
    by_environment = handlers.get("env")
    if by_environment is None or hasattr(by_environment, "of_lockstep"):
        return

    def meet(url: str, **options: Any) -> Iterator[Any]:
        # A script that names its rank in the URL says the rest itself, too.
        met = "rank=" not in url and _set_variables(options.get("timeout", _TIMEOUT))
        try:
            yield from by_environment(url, **options)
        except ValueError as error:
            if "expected, but not set" not in str(error):
                raise
            script = shlex.join(sys.argv)
            raise ValueError(
                f"no launcher has started this process. Type: torchrun --nproc-per-node 2 {script}"
                f"   or: lockstep run -g 2 -- python {script}   ({error})"
            ) from None
        finally:
            # Torch drops this generator when the group is made, or could not be made.
            if met:
                communication().end_launcher_meeting()

    meet.of_lockstep = True  # type: ignore[attr-defined]
    handlers["env"] = meet


def _set_variables(timeout: timedelta) -> bool:
    """True if a launcher's ranks have met; raises RuntimeError if they do not in time."""
    if any(os.environ.get(name) for name in _TORCH_VARIABLES):
        return False
    if not any(os.environ.get(name) for name in _LAUNCHER_VARIABLES):
        return False
    variables = communication().meet_by_launcher(timeout)
    os.environ.update(variables)
    return bool(variables)
