"""Lockstep for Python: the training engine, metrics for the page, the backend "lockstep".

    import lockstep

    torch.distributed.init_process_group("lockstep")
    model = lockstep.shard(model, policy="mics:8")
    lockstep.log({"loss": loss}, step=step)
    with lockstep.label("layers.7"):
        torch.distributed.all_reduce(gradient)
    lockstep.profile_step()

    for run in lockstep.runs(project="demo", state="succeeded"):
        print(run.id, run.results)
    loss = lockstep.run("demo/7").metrics("loss")

Importing this package does not import torch, so that ``log`` costs nothing in programs without it.
Names that need torch import it at their first use. The backend is registered by the second import:
``import torch`` finds it through the entry point ``torch.backends``, ``import lockstep`` registers
it if torch is loaded. ``import lockstep.backend`` always works: it imports torch and registers.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from lockstep._artifact import log_artifact
from lockstep._build import VERSION as __version__
from lockstep._compiled import check_versions
from lockstep._label import label
from lockstep._report import checkpoint, event, finish, log, offline, progress
from lockstep._step_timer import StepTimer, log_flops, set_peak_flops

if TYPE_CHECKING:
    from lockstep._checkpoints import Checkpoints, Sampler
    from lockstep._client.artifacts import Artifact
    from lockstep._client.curves import curves
    from lockstep._client.daemon import DaemonError
    from lockstep._client.runs import LogLine, Run, run, runs
    from lockstep._interop.named_state import (
        Stateful,
        load_optimizer_state_dict,
        optimizer_state_dict,
    )
    from lockstep._media import Histogram, Image
    from lockstep._profile import profile_step
    from lockstep._shard import no_sync, shard
    from lockstep._state import average_buffers, load_state_dict, state_dict
    from lockstep._step import clip_grad_norm_
    from lockstep._training import Training
    from lockstep._whole import mark_elementwise

__all__ = [
    "Artifact",
    "Checkpoints",
    "DaemonError",
    "Histogram",
    "Image",
    "LogLine",
    "Run",
    "Sampler",
    "Stateful",
    "StepTimer",
    "Training",
    "__version__",
    "average_buffers",
    "checkpoint",
    "clip_grad_norm_",
    "curves",
    "event",
    "finish",
    "label",
    "load_optimizer_state_dict",
    "load_state_dict",
    "log",
    "log_artifact",
    "log_flops",
    "mark_elementwise",
    "no_sync",
    "offline",
    "optimizer_state_dict",
    "profile_step",
    "progress",
    "run",
    "runs",
    "set_peak_flops",
    "shard",
    "state_dict",
]

# Loaded at their first use, too, so that a rank that only logs does not pay for them.
_CLIENT = {
    "Artifact": "lockstep._client.artifacts",
    "DaemonError": "lockstep._client.daemon",
    "Histogram": "lockstep._media",
    "Image": "lockstep._media",
    "LogLine": "lockstep._client.runs",
    "Run": "lockstep._client.runs",
    "curves": "lockstep._client.curves",
    "run": "lockstep._client.runs",
    "runs": "lockstep._client.runs",
}

_NEED_TORCH = {
    "Checkpoints": "lockstep._checkpoints",
    "Sampler": "lockstep._checkpoints",
    "Stateful": "lockstep._interop.named_state",
    "Training": "lockstep._training",
    "average_buffers": "lockstep._state",
    "clip_grad_norm_": "lockstep._step",
    "load_optimizer_state_dict": "lockstep._interop.named_state",
    "load_state_dict": "lockstep._state",
    "mark_elementwise": "lockstep._whole",
    "no_sync": "lockstep._shard",
    "optimizer_state_dict": "lockstep._interop.named_state",
    "profile_step": "lockstep._profile",
    "shard": "lockstep._shard",
    "state_dict": "lockstep._state",
}


def __getattr__(name: str) -> Any:
    if name in _CLIENT:
        return getattr(importlib.import_module(_CLIENT[name]), name)
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_versions()
    return getattr(importlib.import_module(_NEED_TORCH[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


if "torch.distributed.distributed_c10d" in sys.modules:
    from lockstep.backend import register

    register()
