"""The metadata of the wheel."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import extra_train


def test_the_extra_train_names_the_torch_of_the_build_without_the_name_of_that_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.12.1+cu130")
    extras = extra_train.dynamic_metadata({}, {})["optional-dependencies"]
    assert extras == {"train": ["torch==2.12.1"]}
