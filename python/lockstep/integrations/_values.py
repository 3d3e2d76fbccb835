"""Values of loggers on their way to lockstep.log."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import lockstep._report as report
from lockstep._run_files import warn_once


def log_numbers(call: str, values: Mapping[str, Any], step: int | None) -> None:
    """Logs the numbers among them. A value that is none is left out, with one warning for its name.

    Args:
        call: for the warning, such as "LockstepTracker.log".
    """
    found = {name: value for name, value in values.items() if _is_number(value)}
    for name in values.keys() - found.keys():
        warn_once(f"{call}: {name}", f"{type(values[name]).__name__} is no number and is left out")
    if found:
        report.log(found, step=step)


def _is_number(value: Any) -> bool:
    if isinstance(value, numbers.Real):
        return True
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return hasattr(value, "item") and size == 1 and not _is_complex(value)


def _is_complex(value: Any) -> bool:
    check = getattr(value, "is_complex", None)
    return bool(check()) if check else str(getattr(value, "dtype", "")).startswith("complex")
