"""The packages of others that integrations extend."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def lightning_package() -> str:
    """The package whose Trainer the program uses: the other one refuses its strategies.

    Raises:
        ImportError: Lightning is missing.
    """
    names = ("lightning.pytorch", "pytorch_lightning")
    loaded = [name for name in names if name in sys.modules]
    found = [name for name in names if importlib.util.find_spec(name.split(".")[0])]
    if not found:
        raise ImportError("Lockstep's parts for Lightning need it: pip install lightning")
    return (loaded or found)[0]


def package(name: str) -> Any:
    """
    Raises:
        ImportError: it is missing. The message has the command that installs it.
    """
    if importlib.util.find_spec(name) is None:
        raise ImportError(f"lockstep.integrations.{name} needs it: pip install {name}", name=name)
    return importlib.import_module(name)
