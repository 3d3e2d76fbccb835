"""Stands in for the transformers library in tests: a GPT-2 of its shape, its names and its habits.

Tied embeddings, transposed linear layers, masks among the buffers, blocks that give tuples and are
called by keyword, outputs that are mappings, one function that initializes modules of any kind.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass
class GPT2Config:
    vocab_size: int = 256
    n_positions: int = 64
    n_embd: int = 64
    n_layer: int = 2
    n_head: int = 4
    attn_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    resid_pdrop: float = 0.0
    use_cache: bool = False
    initializer_range: float = 0.02


class ModelOutput(OrderedDict[str, Any]):
    """A mapping whose items are attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Conv1D(nn.Module):
    def __init__(self, to: int, given: int) -> None:
        super().__init__()
        self.nf = to
        self.weight = nn.Parameter(torch.empty(given, to))
        self.bias = nn.Parameter(torch.zeros(to))

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], self.nf)


class GPT2Attention(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        size = config.n_positions
        mask = torch.tril(torch.ones(size, size, dtype=torch.bool)).view(1, 1, size, size)
        self.register_buffer("bias", mask, persistent=False)
        self.heads = config.n_head
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        batch, time, width = x.shape
        split = self.c_attn(x).split(width, dim=2)
        query, key, value = (
            each.view(batch, time, self.heads, -1).transpose(1, 2) for each in split
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(key.shape[-1])
        scores = scores.masked_fill(~self.bias[:, :, :time, :time], torch.finfo(x.dtype).min)
        weights = scores.softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, time, width)
        return self.c_proj(mixed), weights


class GPT2MLP(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, 4 * config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class GPT2Block(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = GPT2Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = GPT2MLP(config)

    def forward(self, hidden_states: Tensor, use_cache: bool = False) -> tuple[Tensor, ...]:
        attended, weights = self.attn(self.ln_1(hidden_states))
        hidden_states = attended + hidden_states
        hidden_states = hidden_states + self.mlp(self.ln_2(hidden_states))
        return hidden_states, weights


class GPT2Model(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([GPT2Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.recompute: dict[str, bool] | None = None

    def forward(self, input_ids: Tensor) -> ModelOutput:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.drop(self.wte(input_ids) + self.wpe(positions))
        for block in self.h:
            if self.recompute is not None and self.training:
                hidden = checkpoint(block.__call__, hidden, **self.recompute)[0]
            else:
                hidden = block(hidden_states=hidden, use_cache=False)[0]
        return ModelOutput(last_hidden_state=self.ln_f(hidden))


class GPT2LMHeadModel(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.transformer = GPT2Model(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        spread = self.config.initializer_range
        if isinstance(module, nn.Linear | Conv1D | nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=spread)
        elif isinstance(module, nn.LayerNorm):
            module.bias.data.zero_()
            module.weight.data.fill_(1.0)
        for name, parameter in module.named_parameters():
            if name == "c_proj.weight":
                parameter.data.normal_(mean=0.0, std=spread / math.sqrt(2 * self.config.n_layer))

    def gradient_checkpointing_enable(self, arguments: dict[str, bool]) -> None:
        self.transformer.recompute = arguments

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> ModelOutput:
        logits = self.lm_head(self.transformer(input_ids).last_hidden_state)
        output = ModelOutput(logits=logits)
        if labels is not None:
            given, following = logits[:, :-1], labels[:, 1:]
            output["loss"] = functional.cross_entropy(
                given.reshape(-1, given.size(-1)), following.reshape(-1)
            )
        return output
