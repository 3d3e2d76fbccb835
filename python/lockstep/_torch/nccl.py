"""ProcessGroupNCCL for the ranks that Lockstep connects itself; docs/design/gpu.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

HANDLING = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
# Aborts the communicator, and does not end the process.
CLEAN_UP_ONLY = "2"


def register(module: Any) -> None:
    """Lets the backend "lockstep" pass tensors of GPUs to NCCL, if torch has it."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_nccl_available():
        module.register_device_backend("cuda", "nccl", create)


def create(
    store: Any,
    rank: int,
    size: int,
    name: str,
    global_ranks: list[int],
    timeout: timedelta,
    recoverable: bool,
) -> Any:
    """A backend for one group.

    Args:
        store: a c10d store for this group alone.
        recoverable: the process goes on after a failure of the group.
    """
    from torch.distributed import ProcessGroupNCCL

    options = ProcessGroupNCCL.Options()
    options.group_name = name
    options.global_ranks_in_group = global_ranks
    options._timeout = timeout
    with _keeps_process() if recoverable else nullcontext():
        return ProcessGroupNCCL(store, rank, size, options)


@contextmanager
def _keeps_process() -> Iterator[None]:
    """NCCL's backend reads the variable when it is made. Torch's default ends the process."""
    if HANDLING in os.environ:
        yield
        return
    os.environ[HANDLING] = CLEAN_UP_ONLY
    try:
        yield
    finally:
        os.environ.pop(HANDLING, None)
