"""lockstep.wandb under the name `wandb`, with the submodules that trainers import."""

from __future__ import annotations

import secrets
import sys
import types
from typing import Any

from lockstep.wandb import _config
from lockstep.wandb._run import Run


class RunDisabled:
    """A class that Lightning asks about; no run is one."""


def _generate_id(length: int = 8) -> str:
    return secrets.token_hex(length)[:length]


# The submodules, and what they have.
_SUBMODULES: dict[str, dict[str, Any]] = {
    "sdk": {},
    "sdk.lib": {"RunDisabled": RunDisabled},
    "sdk.lib.config_util": {"ConfigError": _config.ConfigError},
    "sdk.wandb_run": {"Run": Run},
    "wandb_run": {"Run": Run},
    "util": {"generate_id": _generate_id},
    "errors": {
        "CommError": _config.CommError,
        "Error": _config.Error,
        "UsageError": _config.UsageError,
    },
}


def take_place() -> None:
    """From now on ``import wandb`` finds lockstep.wandb. Further calls do nothing."""
    package: Any = sys.modules["lockstep.wandb"]
    sys.modules["wandb"] = package
    for name, content in _SUBMODULES.items():
        whole = f"wandb.{name}"
        if getattr(sys.modules.get(whole), "of_lockstep", False):
            continue
        module: Any = types.ModuleType(whole, "A part of wandb, by lockstep.wandb.")
        module.__dict__.update(content, of_lockstep=True, __path__=[])
        sys.modules[whole] = module
        parent, _, last = whole.rpartition(".")
        setattr(sys.modules[parent], last, module)
