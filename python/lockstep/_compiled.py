"""Loads the compiled part, ``lockstep._lockstep``, at its first use."""

import atexit
import functools
import importlib
import sys
from typing import Any

from lockstep._build import BUILT_FOR_PYTHON, BUILT_FOR_TORCH, VERSION
from lockstep._torch import nccl


@functools.cache
def communication() -> Any:
    """The module ``lockstep._lockstep``, of which the training engine may be missing.

    Raises:
        ImportError: torch is missing, or it or the Python is another than the extension was built
            for; the message names both, and the commands that help.
    """
    check_versions()
    module = importlib.import_module("lockstep._lockstep")
    nccl.register(module)
    return module


@functools.cache
def compiled() -> Any:
    """The module ``lockstep._lockstep`` with all its parts. Raises as communication() does."""
    module = communication()
    module.bind_training(module)
    return module


def leave_groups_at_exit() -> None:
    """A rank that ends without destroy_process_group still has our threads; they end before Python
    does."""
    atexit.unregister(communication().shutdown_all)
    atexit.register(communication().shutdown_all)


def check_versions() -> None:
    """Raises ImportError as communication() does."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    torch = _torch_version()
    # The builds of a version, such as 2.13.0+cpu and 2.13.0+cu130, have one interface.
    if torch.partition("+")[0] == BUILT_FOR_TORCH and python == BUILT_FOR_PYTHON:
        return
    raise ImportError(
        f"lockstep's extension was built for CPython {BUILT_FOR_PYTHON} and torch "
        f"{BUILT_FOR_TORCH}. This is CPython {python}, and torch is {torch or 'not installed'}. "
        f"Type: {'   or: '.join(_remedies(python, torch))}"
    )


def _remedies(python: str, torch: str) -> list[str]:
    """The torch of this extension, or an extension for the present torch."""
    other_torch = f"pip install torch=={BUILT_FOR_TORCH}"
    build_here = f"pip install --no-build-isolation lockstep-{VERSION}.tar.gz"
    if not torch:
        return [other_torch]
    return [build_here] if python != BUILT_FOR_PYTHON else [other_torch, build_here]


def _torch_version() -> str:
    try:
        return str(importlib.import_module("torch").__version__)
    except ImportError:
        return ""
