"""The extension needs the torch and the Python that it was built for; the rest needs neither."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockstep._build import BUILT_FOR_PYTHON, BUILT_FOR_TORCH, VERSION

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"
OTHER_TORCH = """
import sys, types
sys.modules['torch'] = types.ModuleType('torch')
sys.modules['torch'].__version__ = '{}'
"""
BUILD_HERE = f"pip install --no-build-isolation lockstep-{VERSION}.tar.gz"
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
    ("torch", "found"),
    [(WITHOUT_TORCH, "not installed"), (OTHER_TORCH.format("2.1.0+cpu"), "2.1.0+cpu")],
)
def test_another_torch_is_refused_with_both_versions(torch: str, found: str) -> None:
    message = output_of(torch + USE)
    assert f"CPython {BUILT_FOR_PYTHON}" in message
    assert f"torch {BUILT_FOR_TORCH}" in message
    assert found in message
    assert f"pip install torch=={BUILT_FOR_TORCH}" in message


def test_another_torch_is_refused_with_the_command_that_builds_for_it() -> None:
    assert BUILD_HERE in output_of(OTHER_TORCH.format("2.1.0+cu121") + USE)
    assert BUILD_HERE not in output_of(WITHOUT_TORCH + USE)


def test_a_wheel_for_another_python_is_refused_with_the_command_that_builds_for_this_one() -> None:
    other_python = "import lockstep._compiled as c; c.BUILT_FOR_PYTHON = '3.9'"
    message = output_of(OTHER_TORCH.format(BUILT_FOR_TORCH) + other_python + USE)
    assert "built for CPython 3.9" in message
    assert BUILD_HERE in message
    assert "pip install torch" not in message


def test_every_build_of_the_torch_that_the_extension_was_built_for_is_accepted() -> None:
    program = OTHER_TORCH.format(f"{BUILT_FOR_TORCH}+cu130")
    assert output_of(program + "import lockstep._compiled as c; c.check_versions()") == ""


def test_reports_work_without_torch() -> None:
    assert "loss 1.5" in output_of(WITHOUT_TORCH + "import lockstep; lockstep.log({'loss': 1.5})")
