"""Programs that name another backend, with LOCKSTEP_REPLACE_BACKEND=gloo, nccl or gloo,nccl.

Torch makes every group in ``_new_process_group_helper``. The patch has it make a group over
"lockstep" there, and then records the name that the program gave, which ``get_backend`` and later
calls of ``new_group`` read. So such a group is one of ours in all but that name. Torch has no
public hook for that: if its code is not as expected, a line warns, and the program uses its own
backend.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

VARIABLE = "LOCKSTEP_REPLACE_BACKEND"
_REPLACEABLE = {"gloo", "nccl"}


def patch_torch() -> None:
    """Called where LOCKSTEP_REPLACE_BACKEND is set. Further calls do nothing."""
    import torch
    from torch.distributed import distributed_c10d

    make = getattr(distributed_c10d, "_new_process_group_helper", None)
    if hasattr(make, "of_lockstep"):
        return
    if make is None or not _is_as_expected(make, distributed_c10d._world):
        _say(
            f"{VARIABLE} does not know how torch {torch.__version__} makes groups; the program "
            'uses its own backend: name "lockstep" in it, or install torch 2.11 to 2.13'
        )
        return
    distributed_c10d._new_process_group_helper = _replacing(make)
    if "nccl" in _names():
        # For programs that ask before they name it. Torch's own code calls the function of
        # distributed_c10d, which keeps its answer.
        import torch.distributed as dist

        dist.is_nccl_available = lambda: True


def _is_as_expected(make: Callable[..., Any], world: Any) -> bool:
    parameters = inspect.signature(make).parameters
    needed = {"group_rank", "global_ranks_in_group", "backend", "backend_options"}
    return needed <= parameters.keys() and all(
        isinstance(getattr(world, name, None), dict) for name in ("pg_map", "pg_backend_config")
    )


def _replacing(make: Callable[..., Any]) -> Callable[..., Any]:
    from torch.distributed import distributed_c10d

    signature = inspect.signature(make)

    @functools.wraps(make)
    def new_process_group(*arguments: Any, **options: Any) -> Any:
        call = signature.bind(*arguments, **options)
        given = call.arguments["backend"]
        made = _replaced(given, _checked_names())
        if made == given:
            return make(*arguments, **options)
        # Options are those of the backend that is replaced; ours takes none.
        call.arguments.update(backend=made, backend_options=None)
        group, store = make(*call.args, **call.kwargs)
        if group is not distributed_c10d.GroupMember.NON_GROUP_MEMBER:
            world = distributed_c10d._world
            world.pg_map[group] = (given, store)
            world.pg_backend_config[group] = str(distributed_c10d.BackendConfig(given))
        if not call.arguments["global_ranks_in_group"] and call.arguments["group_rank"] == 0:
            _say(f"the program's groups use lockstep in place of {os.environ[VARIABLE]}")
        return group, store

    new_process_group.of_lockstep = True  # type: ignore[attr-defined]
    return new_process_group


def _replaced(given: str, names: set[str]) -> str:
    """The backend to make instead, in torch's notation; the given one if none is replaced."""
    from torch.distributed.distributed_c10d import Backend, BackendConfig

    if ":" not in given and given != Backend.UNDEFINED:
        by_device = {"": given}
    else:
        by_device = BackendConfig(Backend(given)).get_device_backend_map()
    replaced = names & set(by_device.values())
    if not replaced:
        return given
    _check_gpus(replaced)
    made = {d: "lockstep" if name in names else name for d, name in by_device.items()}
    if set(made.values()) == {"lockstep"}:
        return "lockstep"
    return ",".join(f"{device}:{name}" for device, name in made.items())


def _check_gpus(replaced: set[str]) -> None:
    import torch

    if "nccl" in replaced and torch.cuda.is_available():
        raise ValueError(
            f"{VARIABLE}={os.environ[VARIABLE]}: nccl is replaced only where there is no GPU, and "
            f'this host has {torch.cuda.device_count()}: leave nccl out, name "lockstep" in the '
            "program, or hide the GPUs with CUDA_VISIBLE_DEVICES="
        )


def _names() -> set[str]:
    return {name.strip() for name in os.environ.get(VARIABLE, "").lower().split(",")} - {""}


def _checked_names() -> set[str]:
    names = _names()
    if unknown := names - _REPLACEABLE:
        raise ValueError(
            f"{VARIABLE}: {', '.join(sorted(unknown))} is not a backend that can be replaced: "
            "set it to gloo, to nccl or to gloo,nccl"
        )
    return names


def _say(line: str) -> None:
    print(f"lockstep: {line}", file=sys.stderr)
