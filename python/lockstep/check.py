"""Tries what training needs, on the CPU and on a GPU: ``python -m lockstep.check``.

Prints the versions and the GPUs, then makes a process group of this process alone and adds numbers
up. Its status is 1 if the extension does not load or the sum fails.
"""

import sys

from lockstep._build import BUILT_FOR_PYTHON, BUILT_FOR_TORCH, VERSION
from lockstep._compiled import compiled


def main() -> int:
    print(f"lockstep {VERSION}, built for CPython {BUILT_FOR_PYTHON} and torch {BUILT_FOR_TORCH}")
    try:
        compiled()
    except ImportError as error:
        print(error)
        return 1
    problem = gpu_problem()
    print(f"no GPU: {problem}" if problem else _gpus())
    try:
        _add_up(on_gpu=not problem)
    except RuntimeError as error:
        print(f"an all-reduce failed: {error}")
        return 1
    print(f"an all-reduce works on the CPU{'' if problem else ' and on a GPU'}")
    return 0


def gpu_problem() -> str:
    """The reason why torch can use no GPU; empty if it can."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is no CUDA build; install one of the same version"
    try:
        torch.cuda.init()
    except RuntimeError as error:
        return (
            f"{str(error).partition('. ')[0]}. torch {torch.__version__} needs a driver for CUDA "
            f"{torch.version.cuda}; nvidia-smi shows the GPUs and the newest CUDA of the driver"
        )
    return ""


def _gpus() -> str:
    import torch

    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return f"torch {torch.__version__}, NCCL {nccl}, GPUs: {', '.join(names)}"


def _add_up(on_gpu: bool) -> None:
    """Raises RuntimeError if a sum fails or is wrong."""
    import torch
    import torch.distributed as dist

    from lockstep import backend

    backend.register()  # torch has done it, unless it loads no plug-ins
    name = "cpu:lockstep,cuda:nccl" if on_gpu else "lockstep"
    dist.init_process_group(name, store=dist.HashStore(), rank=0, world_size=1)
    try:
        for device in ("cpu", "cuda") if on_gpu else ("cpu",):
            values = torch.ones(4, device=device)
            dist.all_reduce(values)
            if values.tolist() != [1.0] * 4:
                raise RuntimeError(f"ones of one rank on {device} add up to {values.tolist()}")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
