"""lockstep.horovod under the name `horovod`, with the submodules that scripts import."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

# The modules of horovod, and those of lockstep.horovod.torch that have their names.
_MODULES = {
    "horovod.torch": "",
    "horovod.torch.compression": ".compression",
    "horovod.torch.elastic": ".elastic",
    "horovod.torch.elastic.sampler": ".elastic",
    "horovod.torch.elastic.state": ".elastic",
    "horovod.torch.functions": ".parameters",
    "horovod.torch.mpi_ops": "",
    "horovod.torch.optimizer": ".optimizer",
    "horovod.torch.sync_batch_norm": ".sync_batch_norm",
    "horovod.common.elastic": ".elastic",
    "horovod.common.exceptions": ".errors",
    "horovod.common.process_sets": ".process_sets",
}


def take_place() -> None:
    """From now on ``import horovod.torch`` finds lockstep.horovod.torch. Further calls do
    nothing."""
    package: Any = sys.modules["lockstep.horovod"]
    sys.modules["horovod"] = package
    common: Any = types.ModuleType("horovod.common", "A part of horovod, by lockstep.horovod.")
    common.__path__ = []
    package.common = sys.modules.setdefault("horovod.common", common)
    for name, own in _MODULES.items():
        module = importlib.import_module(f"lockstep.horovod.torch{own}")
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if not hasattr(sys.modules[parent], last):
            setattr(sys.modules[parent], last, module)
