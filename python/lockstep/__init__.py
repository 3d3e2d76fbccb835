"""Lockstep for Python: metrics for the page, and the communication backend "lockstep".

    import lockstep

    torch.distributed.init_process_group("lockstep")
    lockstep.log({"loss": loss}, step=step)
    with lockstep.label("layers.7"):
        torch.distributed.all_reduce(gradient)

Importing this package imports no torch, so that ``log`` costs nothing in programs without it. The
backend is registered by whichever comes second: ``import torch`` finds it through the entry point
``torch.backends``, ``import lockstep`` finds torch already there. ``import lockstep.backend`` is
the sure way: it imports torch and registers, whatever came before.
"""

import sys

from lockstep._label import label
from lockstep._report import checkpoint, log, progress

__all__ = ["__version__", "checkpoint", "label", "log", "progress"]

__version__ = "0.1.0"

if "torch.distributed.distributed_c10d" in sys.modules:
    from lockstep.backend import register

    register()
