"""Parts of Lockstep for trainers of other libraries, each loaded when it is named:

    from lockstep.integrations.lightning import LockstepLogger, LockstepCallback, LockstepStrategy
    from lockstep.integrations.transformers import LockstepCallback, Trainer, ShardedTrainer
    from lockstep.integrations.accelerate import LockstepTracker

The loggers and callbacks report metrics, progress, checkpoints and hyper-parameters. They need
neither `lockstep.shard` nor the backend. The strategy and the trainers train by `lockstep.shard`.
"""

import importlib
from typing import Any

_NAMES = ("accelerate", "lightning", "transformers")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(
            f"lockstep.integrations has no '{name}'; it has {', '.join(_NAMES)}"
            if not name.startswith("__")
            else name
        )
    return importlib.import_module(f"lockstep.integrations.{name}")


def __dir__() -> list[str]:
    return list(_NAMES)
