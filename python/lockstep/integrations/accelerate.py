"""For Accelerate:

accelerator = Accelerator(log_with=LockstepTracker())
accelerator.init_trackers("demo", config={"lr": 0.5})
accelerator.log({"loss": loss}, step=step)
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import lockstep._report as report
from lockstep._run_files import keep_parameters
from lockstep.integrations._packages import package
from lockstep.integrations._values import log_numbers

package("accelerate")
_tracking: Any = importlib.import_module("accelerate.tracking")

__all__ = ["LockstepTracker"]


class LockstepTracker(_tracking.GeneralTracker):
    """Sends numbers to the run and the configuration to `config.json`, from the main process."""

    name = "lockstep"
    requires_logging_directory = False
    main_process_only = True

    @property
    def tracker(self) -> Any:
        """The object that it logs by: ``tracker.log`` is lockstep.log."""
        return report

    @_tracking.on_main_process  # type: ignore[untyped-decorator]
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        keep_parameters(values)

    @_tracking.on_main_process  # type: ignore[untyped-decorator]
    def log(self, values: Mapping[str, Any], step: int | None = None, **named: Any) -> None:
        """A value that is no number is left out, with a warning."""
        log_numbers("LockstepTracker.log", values, step)
