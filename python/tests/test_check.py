"""``python -m lockstep.check``, which says whether training can work here."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from lockstep._build import BUILT_FOR_TORCH
from lockstep.check import gpu_problem

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 12040). Please update your driver."
)


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_it_names_the_versions_and_adds_up_over_a_group() -> None:
    ended = check("-m", "lockstep.check")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"and torch {BUILT_FOR_TORCH}\n" in ended.stdout
    assert f"torch {torch.__version__}" in ended.stdout
    assert "an all-reduce works on the CPU" in ended.stdout


def test_it_fails_with_the_reason_if_the_extension_does_not_load() -> None:
    program = "import sys, lockstep.check as c; sys.modules['torch'] = None; sys.exit(c.main())"
    ended = check("-c", program)
    assert ended.returncode == 1
    assert "torch is not installed" in ended.stdout
    assert "an all-reduce" not in ended.stdout


def test_a_build_without_cuda_and_a_driver_that_is_too_old_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is no CUDA build" in gpu_problem()

    def refuse() -> None:
        raise RuntimeError(TOO_OLD)

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", refuse)
    assert gpu_problem().startswith("The NVIDIA driver on your system is too old (found version")
    assert "needs a driver for CUDA 13.0" in gpu_problem()
