"""A device that is not the CPU, for tests without a GPU: torch.device("simulated:0").

Importing this module installs it, before the first backward of the process. Kernels are queued,
the host cannot read its memory, and each wait of the host is counted; see
src/train/simulated_device/simulated_device.h. torch.Stream and torch.Event work as usual. The
module itself is torch.simulated, as torch.cuda is a module.
"""

import atexit
import contextlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import _simulated_device as compiled
import torch
import torch.distributed as dist
from _simulated_device import (
    Hold,
    HostWaits,
    bytes_in_use,
    bytes_in_use_max,
    fail,
    host_waits,
    inline_operators,
    living_backends,
    reset_bytes_in_use_max,
    reset_host_waits,
)

from lockstep._compiled import compiled as lockstep_compiled

__all__ = [
    "BACKEND",
    "Hold",
    "HostWaits",
    "bytes_in_use",
    "bytes_in_use_max",
    "fail",
    "host_waits",
    "inline_operators",
    "living_backends",
    "reset_bytes_in_use_max",
    "reset_host_waits",
    "serve_lockstep",
]

NAME = "simulated"
# The backend of a process group for this device alone, which behaves as NCCL's does. With Gloo:
# init_process_group("cpu:gloo,simulated:simulated_nccl"). Not with "lockstep": to torch both are
# "custom", and a group has one backend of each kind.
BACKEND = "simulated_nccl"


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return compiled.DEVICES


def current_device() -> int:
    return compiled.current_device()


def set_device(which: Any) -> None:
    compiled.set_device(_index(which))


@contextlib.contextmanager
def device(which: Any) -> Iterator[None]:
    before = current_device()
    set_device(which)
    try:
        yield
    finally:
        compiled.set_device(before)


def current_stream(which: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device(NAME, _index(which)))


def synchronize(which: Any = None) -> None:
    compiled.synchronize(_index(which))


def get_rng_state(which: Any = None) -> torch.Tensor:
    return compiled.default_generator(_index(which)).get_state()


def set_rng_state(state: torch.Tensor, which: Any = None) -> None:
    compiled.default_generator(_index(which)).set_state(state)


def manual_seed_all(seed: int) -> None:
    for index in range(compiled.DEVICES):
        compiled.default_generator(index).manual_seed(seed)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


# torch.random and torch.utils.checkpoint look for these names.
_initialized = True


def _is_in_bad_fork() -> bool:
    return False


def _index(which: Any) -> int:
    if isinstance(which, int):
        return which
    index = torch.device(which).index if which is not None else None
    return current_device() if index is None else index


def _create_backend(options: Any, _: Any) -> Any:
    return compiled.create_backend(
        options.store, options.group_rank, options.group_size, options.timeout
    )


def serve_lockstep() -> None:
    """From now on groups of the backend "lockstep" carry tensors of this device, too."""

    def create(
        store: Any,
        rank: int,
        size: int,
        name: str,
        ranks: list[int],
        timeout: timedelta,
        recoverable: bool,
    ) -> Any:
        return compiled.create_backend(store, rank, size, timeout)

    lockstep_compiled().register_device_backend(NAME, BACKEND, create)


@atexit.register
def _finish_kernels() -> None:
    """A kernel that is queued holds tensors, and to release them takes Python's lock."""
    for index in range(compiled.DEVICES):
        with contextlib.suppress(RuntimeError):  # the device has failed
            compiled.synchronize(index)


compiled.install()
torch.utils.rename_privateuse1_backend(NAME)
torch._register_device_module(NAME, sys.modules[__name__])
dist.Backend.register_backend(BACKEND, _create_backend, extended_api=True, devices=[NAME])
