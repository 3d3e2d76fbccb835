"""The one function that DeepSpeed's MiCS needs and torch lacks.

MiCS gathers the shards of many parameters at once, by ``_all_gather_base_coalesced`` of
``torch.distributed.distributed_c10d`` if that exists, which it did in its authors' build only.
Otherwise it uses torch's coalescing manager, and takes its handle from the wrong object: torch
refuses to wait for that. MiCS reports it as a warning (or fails, when it gathers hierarchically)
before it computes with parameters that may not have arrived. This affects any backend, from torch
2.1 on.
"""

from collections.abc import Sequence
from typing import Any


def all_gather_base_coalesced(
    outputs: Sequence[Any], inputs: Sequence[Any], group: Any = None, async_op: bool = False
) -> Any:
    """Gathers inputs[i] of all ranks into outputs[i], for each i; returns one handle for all."""
    from torch.distributed import distributed_c10d

    # Its name before torch 2.13 is deprecated since.
    gather = getattr(distributed_c10d, "all_gather_single", None)
    gather = gather or distributed_c10d.all_gather_into_tensor
    with distributed_c10d._coalescing_manager(group, async_ops=async_op) as gathers:
        for output, each in zip(outputs, inputs, strict=True):
            gather(output, each, group=group, async_op=async_op)
    return gathers if async_op else None
