"""The programs in tools/ that have no suffix, called without a process of their own."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def script(name: str) -> ModuleType:
    """A program as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(TOOLS / name))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look for it
    loader.exec_module(module)
    return module


def findings_of(check: ModuleType, root: Path) -> list[str]:
    """The lines that a check prints for a tree. Its status tells that there are some."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = check.main(root)
    found = printed.getvalue().splitlines()
    assert status == (1 if found else 0)
    return found
