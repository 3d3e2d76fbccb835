"""The objects in the place of gradients of which each rank has only a part."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

UNSCALE = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default


class HiddenGradient(Tensor):
    """It has a shape and no elements. torch.amp.GradScaler unscales it; nothing else can read it,
    so that no program takes a part of a gradient for the whole."""

    sharded: weakref.ref[Any]  # not more: the engine keeps this tensor
    number: int  # of the parameter

    @staticmethod
    def of(sharded: Any, number: int) -> HiddenGradient:
        """In the type of the gradient: 32 bits for a parameter of 16."""
        parameter = sharded.parameters[number]
        narrow = parameter.dtype in (torch.float16, torch.bfloat16)
        hidden: HiddenGradient = torch.Tensor._make_wrapper_subclass(
            HiddenGradient,
            parameter.shape,
            dtype=torch.float32 if narrow else parameter.dtype,
            device=parameter.device,
        )
        hidden.sharded, hidden.number = weakref.ref(sharded), number
        return hidden

    @classmethod
    def __torch_dispatch__(
        cls,
        function: Any,
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is UNSCALE:
            return _unscale(*arguments)
        raise RuntimeError(
            "gradients are divided among the ranks, and this one does not have them: clip by "
            "lockstep.clip_grad_norm_(model.parameters(), max_norm); optimizer.step() finds them"
        )


def _unscale(gradients: Sequence[Tensor], found_inf: Tensor, inverse_scale: Tensor) -> None:
    """All ranks find the same: each in its slices, and then they compare."""
    others = [each for each in gradients if not isinstance(each, HiddenGradient)]
    if others:
        UNSCALE(others, found_inf, inverse_scale)
    numbers: dict[Any, list[int]] = {}
    for each in gradients:
        if isinstance(each, HiddenGradient):
            numbers.setdefault(each.sharded(), []).append(each.number)
    for sharded, own in numbers.items():
        sharded.core.unscale_gradients(own, found_inf, inverse_scale)
