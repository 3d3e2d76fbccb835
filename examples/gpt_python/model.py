"""A decoder-only transformer over bytes, like GPT-2. It does not depend on ranks.

Its parameters have the names of those of examples/gpt, so that either resumes from the other's
checkpoints.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BYTES = 256
SPREAD = 0.02


@dataclass(frozen=True)
class Sizes:
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 64  # bytes that a prediction can attend to

    def notes(self) -> dict[str, str]:
        """The values that a checkpoint keeps."""
        return {name: str(size) for name, size in asdict(self).items()}


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.norm1 = nn.LayerNorm(sizes.width)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.project = nn.Linear(sizes.width, sizes.width)
        self.norm2 = nn.LayerNorm(sizes.width)
        self.widen = nn.Linear(sizes.width, 4 * sizes.width)
        self.narrow = nn.Linear(4 * sizes.width, sizes.width)
        # Every block adds two branches to the stream, whose variance must not grow with depth.
        self.branch_spread = SPREAD / math.sqrt(2 * sizes.layers)

    def forward(self, x: Tensor) -> Tensor:  # [batch, time, width]
        y = x + self.attention(self.norm1(x))
        wide = functional.gelu(self.widen(self.norm2(y)), approximate="tanh")
        return y + self.narrow(wide)

    def attention(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        # Three of [batch, heads, time, width / heads].
        query, key, value = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(x.shape))


class Gpt(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Parameter(torch.empty(BYTES, sizes.width))
        self.position = nn.Parameter(torch.empty(sizes.context, sizes.width))
        for number in range(sizes.layers):
            self.add_module(f"block{number}", Block(sizes))
        self.norm = nn.LayerNorm(sizes.width)

    def blocks(self) -> list[Block]:
        """The modules with nearly all parameters."""
        return [each for each in self.children() if isinstance(each, Block)]

    def forward(self, bytes_: Tensor) -> Tensor:
        """Logits [batch, time, 256] for the byte after each of [batch, time]."""
        x = self.embedding[bytes_] + self.position[: bytes_.shape[1]]
        for block in self.blocks():
            x = block(x)
        return functional.linear(self.norm(x), self.embedding)


def fill(module: nn.Module) -> None:
    """Draws a module's own parameters, for a model from the meta device."""
    if isinstance(module, Gpt):
        nn.init.normal_(module.embedding, std=SPREAD)
        nn.init.normal_(module.position, std=SPREAD)
    elif isinstance(module, nn.LayerNorm):
        module.reset_parameters()
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=SPREAD)
        nn.init.zeros_(module.bias)
    elif isinstance(module, Block):  # after its children
        nn.init.normal_(module.project.weight, std=module.branch_spread)
        nn.init.normal_(module.narrow.weight, std=module.branch_spread)
