"""The cases that are compared: steps of models, and many small tensors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    width: int = 0  # of the model (_trainer.py)
    tensors: int = 0  # or else so many tensors
    floats: int = 0  # of each


CASES = {
    "0.2M": Case(width=256),
    "5M": Case(width=1536),
    "25M": Case(width=3472),
    "small": Case(tensors=1000, floats=256),
}
