"""torch's optimizers for the engine: agreed steps on this rank's slices."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from lockstep._capture import refuse_capture
from lockstep._profile import end_step_of
from lockstep._report import warn_and_report
from lockstep._whole import (
    needs_whole_parameters,
    parameters_of,
    swap_in_whole_parameters,
)

MARK = "_lockstep"

# They need all parameters at once, or sparse gradients.
REFUSED = ("LBFGS", "SparseAdam")

_checked: weakref.WeakSet[Optimizer] = weakref.WeakSet()
# Learning rates as the program has set them, during a step with scaled ones.
_unscaled: weakref.WeakKeyDictionary[Optimizer, list[Any]] = weakref.WeakKeyDictionary()
_watching = False


def watch_optimizers() -> None:
    """From now on every optimizer's step checks whether its parameters belong to a sharded
    model."""
    global _watching
    if not _watching:
        register_optimizer_step_pre_hook(_before_step)
        register_optimizer_step_post_hook(_after_step)
    _watching = True


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scales the gradients of a sharded model down to a global norm, over all ranks.

    Between backward and step, as torch.nn.utils.clip_grad_norm_; every rank calls it.

    Args:
        parameters: all of one sharded model.

    Returns:
        The norm before; infinity if a gradient is not finite, and then no optimizer steps.
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    cores = list(_cores_of(given))
    trainable = sum(isinstance(getattr(each, MARK, None), tuple) for each in given)
    if len(cores) != 1 or trainable != len(cores[0].parameter_names()):
        raise ValueError("lockstep.clip_grad_norm_ takes all parameters of one sharded model")
    if not max_norm > 0:
        raise ValueError(f"max_norm {max_norm}: must be positive")
    _, norm = cores[0].begin_step(max_norm)
    return float(norm)


def mark_as_replaced(parameter: nn.Parameter) -> None:
    """The parameter is no longer part of its model."""
    setattr(parameter, MARK, "replaced")


def _parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _cores_of(parameters: Iterable[Tensor]) -> Iterator[Any]:
    seen: set[int] = set()
    for parameter in parameters:
        mark = getattr(parameter, MARK, None)
        if mark == "replaced":
            raise ValueError(
                "the optimizer was made before lockstep.shard, which gave a model from the meta "
                "device other parameters: make it after"
            )
        if isinstance(mark, tuple) and id(mark[0].core) not in seen:
            seen.add(id(mark[0].core))
            yield mark[0].core


def _before_step(optimizer: Optimizer, arguments: Any, named: Any) -> None:
    cores = list(_cores_of(_parameters_of(optimizer)))
    if not cores:
        return
    device = next(_parameters_of(optimizer)).device
    refuse_capture(device, "the optimizer of a sharded model steps")
    # Torch's wrapper passes the optimizer first.
    if any(callable(each) for each in (*arguments[1:], *named.values())):
        raise ValueError("optimizer.step(closure) is not for sharded models: call backward before")
    if optimizer not in _checked:
        _check(optimizer)
        _checked.add(optimizer)
    with torch.no_grad():
        for core in cores:
            if core.task is not None:
                core.set_learning_rates([float(each["lr"]) for each in optimizer.param_groups])
            taken, _ = core.begin_step()
            if not taken:
                if core.rank == 0:
                    warn_and_report(f"a step is not taken: {core.non_finite()}")
                core.drop_gradients()  # so no optimizer steps them
        for core in cores:
            core.fetch_gradients()
            _swap_in(optimizer, core)
    _scale_learning_rates(optimizer)


def _swap_in(optimizer: Optimizer, core: Any) -> None:
    """The slices, or whole parameters, for the time of the step."""
    if needs_whole_parameters(optimizer) and not core.slices_are_whole():
        swap_in_whole_parameters(optimizer, core)
        return
    for parameter in parameters_of(optimizer, core):
        if parameter.grad is not None:
            core.swap_in_slice(getattr(parameter, MARK)[1])


def _after_step(optimizer: Optimizer, arguments: Any, named: Any) -> None:
    for group, rate in zip(optimizer.param_groups, _unscaled.pop(optimizer, []), strict=False):
        group["lr"] = rate
    cores = list(_cores_of(_parameters_of(optimizer)))
    for core in cores:
        core.end_step()
    if cores:
        end_step_of(optimizer)


def _scale_learning_rates(optimizer: Optimizer) -> None:
    """For a rescaled batch; Goyal et al., "Accurate, Large Minibatch SGD", 2017."""
    marks = (getattr(parameter, MARK, None) for parameter in _parameters_of(optimizer))
    scale = next((mark[0].learning_rate_scale for mark in marks if mark is not None), 1.0)
    if scale == 1.0:
        return
    _unscaled[optimizer] = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * scale


def _check(optimizer: Optimizer) -> None:
    """Refuses an optimizer that cannot step slices, at its first step."""
    for parameter in _parameters_of(optimizer):
        mark = getattr(parameter, MARK, None)
        if mark is None:
            continue
        sharded, number = mark
        if sharded.core.slices_are_whole():
            continue
        name = type(optimizer).__name__
        if needs_whole_parameters(optimizer) and sharded.core.policy.startswith("ps:"):
            raise ValueError(
                f"{name} needs whole parameters, and a parameter server has a slice of each: use "
                "AdamW or SGD, or another policy"
            )
        if name in REFUSED:
            raise ValueError(
                f"{name} cannot step parts of a model, and the policy {sharded.core.policy} "
                "divides the optimizer's state: use policy ddp, or AdamW"
            )
        if needs_whole_parameters(optimizer):
            continue
        owned = sharded.core.owned_sizes()[number]
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor) and value.numel() not in (1, owned):
                raise ValueError(
                    f"the optimizer has {key} of all of {sharded.names[number]}, from steps before "
                    "lockstep.shard: make the optimizer after it"
                )
