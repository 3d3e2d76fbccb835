"""CUDA graphs: a stream that captures one cannot take part in a sharded training."""

from __future__ import annotations

import torch


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
