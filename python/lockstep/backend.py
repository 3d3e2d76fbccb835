"""The backend "lockstep" of torch.distributed, for CPU tensors and, over NCCL, for GPU tensors.

Torch imports it through the entry point ``torch.backends``, so it must stay cheap: the compiled
part, ``lockstep._lockstep``, is loaded when the first group is made.
"""

import importlib
import os
import socket
from datetime import timedelta
from typing import Any

from lockstep._compiled import communication, leave_groups_at_exit
from lockstep._step_times import watch_steps
from lockstep._torch import by_name, launchers


def register() -> None:
    """Makes ``init_process_group("lockstep")`` and ``new_group(backend="lockstep")`` work.

    Further calls do nothing.
    """
    # Not at the top: importing torch imports this module, through the entry point, which then needs
    # this function.
    import torch.distributed
    from torch.distributed.distributed_c10d import Backend

    if torch.distributed.is_available() and "LOCKSTEP" not in Backend._plugins:
        # Tensors of GPUs go on to NCCL (_torch/nccl.py).
        devices = ["cpu", "cuda"] if torch.distributed.is_nccl_available() else ["cpu"]
        Backend.register_backend("lockstep", _create, extended_api=True, devices=devices)
        _meet_by_launcher()
        _bind_store_to_loopback()
        if os.environ.get("LOCKSTEP_REPLACE_BACKEND"):
            from lockstep._torch import replace_backend

            replace_backend.patch_torch()
        by_name.patch_torch()


def _meet_by_launcher() -> None:
    """Ranks of srun and mpirun find each other, and a process without a launcher is told which
    command to use. Torch has no public hook for that: if its own code is not as expected, it
    behaves as usual."""
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    launchers.patch_torch(getattr(rendezvous, "_rendezvous_handlers", {}))


def _bind_store_to_loopback() -> None:
    """Under ``lockstep run`` rank 0's TCPStore listens on loopback, because it has no
    authentication. Ranks on other hosts call their agent, which forwards to it over an
    authenticated connection. For every backend, because torch imports this module. Torch has no
    public hook for that: if its own code is not as expected, it listens as usual."""
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    create = getattr(rendezvous, "_create_c10d_store", None)
    if create is None or getattr(create, "of_lockstep", False):
        return

    def create_store(
        hostname: str,
        port: int,
        rank: int,
        world_size: int,
        timeout: timedelta,
        use_libuv: bool = True,
    ) -> Any:
        hostname, port = _on_loopback(hostname, port)
        serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        listener = _listener(hostname, port) if serves and "LOCKSTEP_RUN" in os.environ else None
        if listener is None:
            return create(hostname, port, rank, world_size, timeout, use_libuv)
        return rendezvous.TCPStore(
            host_name=hostname,
            port=listener.getsockname()[1],
            world_size=world_size,
            is_master=True,
            timeout=timeout,
            multi_tenant=True,
            master_listen_fd=listener.detach(),
            use_libuv=use_libuv,
        )

    create_store.of_lockstep = True  # type: ignore[attr-defined]
    rendezvous._create_c10d_store = create_store  # type: ignore[attr-defined]


def _on_loopback(host: str, port: int) -> tuple[str, int]:
    """The loopback address of the store at MASTER_ADDR and MASTER_PORT, if this host forwards to
    it. A store at another address is the script's own and is not changed."""
    ours = os.environ.get("LOCKSTEP_TORCH_STORE", "").split()
    return ("127.0.0.1", int(ours[2])) if ours[:2] == [host, str(port)] else (host, port)


def _listener(host: str, port: int) -> socket.socket | None:
    """Nothing if the port is in use: this process's store of an earlier group is used again, or
    torch reports the error."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        return None
    return listener


def _create(options: Any, backend_options: Any) -> Any:
    """Called by torch on each rank of a new group; returns its c10d backend.

    Raises:
        torch.distributed.DistBackendError: the ranks could not connect; the message names the rank.
    """
    _lockstep = communication()
    if backend_options is not None:
        raise ValueError("the backend lockstep takes no pg_options: leave them out")
    _add_coalesced_gather()
    leave_groups_at_exit()
    watch_steps()
    return _lockstep.create_backend(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        options.global_ranks_in_group,
    )


def _add_coalesced_gather() -> None:
    """Adds the function that DeepSpeed's MiCS looks for, unless this build of torch has it.

    Its code is imported when a program calls it, which few do.
    """
    from torch.distributed import distributed_c10d

    if hasattr(distributed_c10d, "_all_gather_base_coalesced"):
        return

    def _all_gather_base_coalesced(*arguments: Any, **options: Any) -> Any:
        from lockstep._torch import mics

        return mics.all_gather_base_coalesced(*arguments, **options)

    distributed_c10d._all_gather_base_coalesced = _all_gather_base_coalesced


register()
