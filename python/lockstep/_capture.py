"""CUDA graphs: a stream that captures one cannot take part in a sharded training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def is_capturing(device: torch.device) -> bool:
    """True while this thread's current stream of a CUDA device captures a graph."""
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def refuse_capture(device: torch.device, what: str) -> None:
    if is_capturing(device):
        raise RuntimeError(
            f"{what} while a CUDA graph is captured: the host waits for the other ranks, and the "
            "addresses of parameters change. Call it outside of torch.cuda.graph and "
            "torch.cuda.make_graphed_callables, and compile without mode='reduce-overhead'"
        )


def refuse_compiled_graphs(model: nn.Module, device: torch.device) -> None:
    """Refuses a model of which a part is compiled to CUDA graphs. On the CPU torch makes none."""
    if device.type != "cuda":
        return
    for name, module in model.named_modules():
        if any(_makes_graphs(each) for each in (module, module._compiled_call_impl)):
            raise ValueError(
                f"{name or 'the model'} is compiled to CUDA graphs, which expect parameters at "
                "fixed addresses: compile it by mode='default' or 'max-autotune-no-cudagraphs', "
                "not by 'reduce-overhead' or 'max-autotune'"
            )


def _makes_graphs(function: Any) -> bool:
    """True for a result of torch.compile with such options."""
    options: Callable[[], Any] | None = getattr(function, "get_compiler_config", None)
    return bool(options is not None and (options() or {}).get("triton.cudagraphs"))
