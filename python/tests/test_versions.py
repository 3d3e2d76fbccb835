"""The extension needs the torch and the Python that it was built for; the rest needs neither."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockstep._build import BUILT_FOR_PYTHON, BUILT_FOR_TORCH

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"
OTHER_TORCH = """
import sys, types
sys.modules['torch'] = types.ModuleType('torch')
sys.modules['torch'].__version__ = '2.1.0+cpu'
"""
USE = """
import lockstep
try:
    lockstep.shard
except ImportError as error:
    print(error)
"""


def output_of(program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("torch", "found"), [(WITHOUT_TORCH, "not installed"), (OTHER_TORCH, "2.1.0+cpu")]
)
def test_another_torch_is_refused_with_both_versions(torch: str, found: str) -> None:
    message = output_of(torch + USE)
    assert f"CPython {BUILT_FOR_PYTHON}" in message
    assert f"torch {BUILT_FOR_TORCH}" in message
    assert found in message
    assert f"pip install torch=={BUILT_FOR_TORCH}" in message


def test_reports_work_without_torch() -> None:
    assert "loss 1.5" in output_of(WITHOUT_TORCH + "import lockstep; lockstep.log({'loss': 1.5})")
