"""Gradients in fewer bits while they travel."""

from __future__ import annotations

import torch
from torch import Tensor


class Compressor:
    """To be derived from: two static methods."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        """The tensor to send, and what decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Tensor, context: torch.dtype) -> Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        return tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, context: torch.dtype) -> Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Other types than floating point stay as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        sent = tensor.half() if tensor.is_floating_point() else tensor
        return sent, tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, context: torch.dtype) -> Tensor:
        return tensor.to(context)


class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
