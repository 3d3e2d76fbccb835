"""Where torch's Python decides by the name of its own backends what a backend can do or is called.

Torch has no public hook for that: if its own code is not as expected, its behaviour stays.
"""

import functools
from datetime import timedelta
from typing import Any


def patch_torch() -> None:
    """Makes ``monitored_barrier`` and ``_set_pg_timeout`` work over the backend "lockstep", and
    DDP's logging data name it.

    Groups over other backends behave as before. Further calls do nothing.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d
    from torch.nn.parallel import DistributedDataParallel

    barrier = getattr(distributed_c10d, "monitored_barrier", None)
    if barrier is not None and not hasattr(barrier, "of_lockstep"):
        distributed_c10d.monitored_barrier = dist.monitored_barrier = _monitored(barrier)
    set_timeout = getattr(distributed_c10d, "_set_pg_timeout", None)
    if set_timeout is not None and not hasattr(set_timeout, "of_lockstep"):
        distributed_c10d._set_pg_timeout = _timed(set_timeout)
    logged = getattr(DistributedDataParallel, "_get_ddp_logging_data", None)
    if logged is not None and not hasattr(logged, "of_lockstep"):
        DistributedDataParallel._get_ddp_logging_data = _named(logged)


def _monitored(barrier: Any) -> Any:
    """Torch refuses any backend but Gloo before it asks the backend."""
    from torch.distributed import distributed_c10d

    @functools.wraps(barrier)
    def monitored_barrier(
        group: Any = None,
        timeout: timedelta | float | None = None,
        wait_all_ranks: bool = False,
    ) -> Any:
        if not _is_ours(group):
            return barrier(group, timeout, wait_all_ranks)
        if not isinstance(timeout, timedelta | None):
            timeout = timedelta(seconds=timeout)  # as torch converts it
        return (group or distributed_c10d._get_default_group()).monitored_barrier(
            timeout, wait_all_ranks=wait_all_ranks
        )

    monitored_barrier.of_lockstep = True  # type: ignore[attr-defined]
    return monitored_barrier


def _is_ours(group: Any) -> bool:
    """A rank that is not in the group has no backend for it: torch warns that it does nothing."""
    from torch.distributed import distributed_c10d

    return not distributed_c10d._rank_not_in_group(group) and (
        distributed_c10d.get_backend(group) == "lockstep"
    )


def _timed(set_timeout: Any) -> Any:
    """Torch sets the time-out of its own backends, and warns where there is none of them."""
    import torch
    from torch.distributed import distributed_c10d

    @functools.wraps(set_timeout)
    def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        chosen = group or distributed_c10d._get_default_group()
        cpu = torch.device("cpu")
        is_member = not distributed_c10d._rank_not_in_group(chosen)
        if is_member and cpu in chosen._device_types:
            backend = chosen._get_backend(cpu)
            if backend.name() == "lockstep":
                backend.set_timeout(timeout)
                return
        set_timeout(timeout, group)

    _set_pg_timeout.of_lockstep = True  # type: ignore[attr-defined]
    return _set_pg_timeout


def _named(logged: Any) -> Any:
    """Torch's C++ calls every backend that is not its own "custom"."""
    from torch.distributed import distributed_c10d

    @functools.wraps(logged)
    def _get_ddp_logging_data(model: Any) -> dict[str, Any]:
        data = logged(model)
        if data.get("backend_name") == "custom":
            data["backend_name"] = distributed_c10d.get_backend(model.process_group)
        return dict(data)

    _get_ddp_logging_data.of_lockstep = True  # type: ignore[attr-defined]
    return _get_ddp_logging_data
