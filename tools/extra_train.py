"""The wheel's extra `train`: the torch that its extension is compiled for (pyproject.toml).

`pip install "lockstep[train]"` installs that version. scikit-build-core calls these functions.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any


def torch_version() -> str:
    """The version of torch in this Python, without the name of its build."""
    return importlib.metadata.version("torch").partition("+")[0]


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    return {"optional-dependencies": {"train": [f"torch=={torch_version()}"]}}


def dynamic_wheel(settings: Mapping[str, Any]) -> dict[str, bool]:
    """A wheel from the sdist is compiled for another torch, perhaps."""
    return {"optional-dependencies": True}
