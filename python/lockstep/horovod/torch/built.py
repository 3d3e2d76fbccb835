"""How Horovod was built: scripts ask before they choose a way. Here the backend is Lockstep's."""

from __future__ import annotations

import torch


def mpi_threads_supported() -> bool:
    return False


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    """Scripts ask it to find whether Horovod works without MPI, which it does."""
    return True


def gloo_built() -> bool:
    return True


def nccl_built() -> int:
    """Tensors of GPUs go through NCCL where torch has it. A number, as in Horovod."""
    return int(torch.distributed.is_nccl_available())


def cuda_built() -> bool:
    return torch.version.cuda is not None


def rocm_built() -> bool:
    return torch.version.hip is not None


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False
