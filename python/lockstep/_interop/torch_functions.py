"""torch.distributed.checkpoint.state_dict's functions for sharded models.

Torch's own take an optimizer's state as that of whole parameters: they would return this rank's
elements under the names of all, and a checkpoint of these would be wrong without an error. Torch
has no hook there: if its own code is not as expected, its behaviour stays.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

_MODULE = "torch.distributed.checkpoint.state_dict"


def replace() -> None:
    """Lets get_state_dict, set_state_dict and their parts work for sharded models.

    Other models get torch's own. Does nothing if the program has not imported them.
    """
    module = sys.modules.get(_MODULE)
    if module is None or hasattr(module, "of_lockstep"):
        return
    for name, ours in _REPLACED.items():
        torchs = getattr(module, name, None)
        if torchs is not None:
            setattr(module, name, _for_sharded(ours, torchs))
    module.of_lockstep = True  # type: ignore[attr-defined]


def _for_sharded(ours: Callable[..., Any], torchs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torchs)
    def function(model: Any, *arguments: Any) -> Any:
        from lockstep._shard import MARK

        return (ours if hasattr(model, MARK) else torchs)(model, *arguments)

    return function


def _get_model(model: Any, info: Any) -> Any:
    from lockstep import _state

    if not info.handle_model:
        return {}
    return _whole_if_asked(_state.state_dict(model, form="dtensor"), info)


def _load_model(model: Any, state: Any, info: Any) -> Any:
    from torch.nn.modules.module import _IncompatibleKeys

    from lockstep import _state

    if info.handle_model and state:
        _refuse_on_rank_0(info)
        _state.load_state_dict(model, state)
    return _IncompatibleKeys([], [])


def _get_optimizer(model: Any, optimizers: Any, info: Any) -> Any:
    from lockstep._interop.named_state import optimizer_state_dict

    if not info.handle_optim:
        return {}
    if info.flatten_optimizer_state_dict:
        raise ValueError("flatten_optimizer_state_dict is not for a sharded model: leave it away")
    state: Any = optimizer_state_dict(model, _only(optimizers), form="dtensor")
    return _whole_if_asked(state, info)


def _load_optimizer(model: Any, optimizers: Any, state: Any, info: Any) -> None:
    from lockstep._interop.named_state import load_optimizer_state_dict

    if info.handle_optim:
        _refuse_on_rank_0(info)
        load_optimizer_state_dict(model, _only(optimizers), state)


def _whole_if_asked(state: Any, info: Any) -> Any:
    return sys.modules[_MODULE]._maybe_full_or_cpu_state_dict(state, info)


def _only(optimizers: Any) -> Any:
    if len(optimizers) != 1:
        raise ValueError(
            "a sharded model has several optimizers: call lockstep.optimizer_state_dict or "
            "lockstep.load_optimizer_state_dict for each"
        )
    return optimizers[0]


def _refuse_on_rank_0(info: Any) -> None:
    if info.broadcast_from_rank0:
        raise ValueError("broadcast_from_rank0: a sharded model takes a state from all ranks")


_REPLACED: dict[str, Callable[..., Any]] = {
    "_get_model_state_dict": _get_model,
    "_load_model_state_dict": _load_model,
    "_get_optim_state_dict": _get_optimizer,
    "_load_optim_state_dict": _load_optimizer,
}
