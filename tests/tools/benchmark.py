"""Runs a benchmark as a test: its rows, of the build under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tools"))

from bench import benchmarks, search_path

PATIENCE = 60.0  # seconds
# The message of a benchmark between network namespaces where it cannot create them.
NO_NAMESPACES = ("need root", "no network namespace")


def rows_of(name: str, *words: str) -> list[dict[str, Any]]:
    """The rows of `./dev bench NAME`; skips the test where its hosts cannot be created."""
    shown = subprocess.run(
        [sys.executable, str(program := benchmarks()[name]), *words],
        env=os.environ | {"LOCKSTEP_BUILD": str(BUILD), "PYTHONPATH": search_path(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if any(words in shown.stderr for words in NO_NAMESPACES):
        pytest.skip(shown.stderr)
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]
