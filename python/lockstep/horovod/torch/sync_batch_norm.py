"""Batch normalization by the mean and the variance of the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from lockstep.horovod.torch.autograd import allreduce
from lockstep.horovod.torch.requests import ReduceOp
from lockstep.horovod.torch.world import is_initialized, size


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d to 3d. While it evaluates, or with one rank, nothing is sent."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes 2 dimensions or more, got {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or not is_initialized() or size() == 1:
            return super().forward(input)
        return self._normalize(input)

    def _normalize(self, input: Tensor) -> Tensor:
        """Sums flow through all-reduces, so their gradients do."""
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        values = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        rows = values.new_full((1,), input.numel() // input.shape[1])
        sums = allreduce(torch.cat([values.sum(axes), rows]), op=ReduceOp.Sum)
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = values - mean.view(shape)
        variance = allreduce((centred * centred).sum(axes), op=ReduceOp.Sum) / count
        if self.training and self.track_running_stats:
            self._update_running(mean.detach(), variance.detach(), count)
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    def _update_running(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share: Any = self.momentum
        if share is None:
            share = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * count / (count - 1)
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert running is not None
            running.mul_(1 - share).add_(value.to(running.dtype), alpha=share)
