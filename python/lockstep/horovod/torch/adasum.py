"""Adasum: a sum of gradients that counts a direction which two ranks share only once.

Two vectors a and b become (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b. More are combined in pairs,
like a tournament. Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation".
"""

from __future__ import annotations

import torch
from torch import Tensor


def adasum(vectors: list[Tensor]) -> Tensor:
    """The sum of the ranks' vectors, of any number of ranks; computed in 64 bits."""
    left = [each.double() for each in vectors]
    while len(left) > 1:
        pairs = [_pair(left[at], left[at + 1]) for at in range(0, len(left) - 1, 2)]
        left = pairs + left[len(left) // 2 * 2 :]
    return left[0].to(vectors[0].dtype)


def _pair(a: Tensor, b: Tensor) -> Tensor:
    product = torch.sum(a * b)
    square_a, square_b = torch.sum(a * a), torch.sum(b * b)
    weight_a = 1 - product / (2 * square_a) if square_a > 0 else 1.0
    weight_b = 1 - product / (2 * square_b) if square_b > 0 else 1.0
    return weight_a * a + weight_b * b
