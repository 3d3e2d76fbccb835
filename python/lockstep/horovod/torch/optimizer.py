"""hvd.DistributedOptimizer: an optimizer whose gradients are reduced over the ranks.

Each parameter's gradient is submitted by a hook as soon as it is there, and step() waits for all.
The result is an object of a class derived from the optimizer's own, with the same state.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockstep.horovod.torch import collectives
from lockstep.horovod.torch.compression import Compression
from lockstep.horovod.torch.parameters import broadcast_object
from lockstep.horovod.torch.process_sets import ProcessSet, global_process_set
from lockstep.horovod.torch.requests import ReduceOp, Request
from lockstep.horovod.torch.submit import submit_again
from lockstep.horovod.torch.worker import Handle
from lockstep.horovod.torch.world import size


@dataclass
class _Options:
    compression: Any
    passes: int
    op: ReduceOp
    predivide: float
    sparse_as_dense: bool
    process_set: ProcessSet


@dataclass
class _Reduction:
    """Gradients on their way. The handle is a function for a sparse one."""

    handle: Any
    parameters: list[Tensor]
    contexts: list[Any]


class _Reducer:
    """The reductions of one optimizer's gradients."""

    def __init__(self, names: dict[Tensor, str], groups: list[list[Tensor]], own: _Options) -> None:
        self.options = own
        self._names = names
        self._group_of = {parameter: group for group in groups for parameter in group}
        self._left = dict.fromkeys(names, own.passes)  # backward passes until a reduction
        self._under_way: list[_Reduction] = []
        self._reduced: set[Tensor] = set()  # parameters of those
        # The requests of the step before, by the first parameter, with the kinds of their tensors.
        self._requests: dict[Tensor, tuple[Any, Request]] = {}
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._on_gradient)
            for parameter in names
            if parameter.requires_grad
        ]

    def is_under_way(self) -> bool:
        return bool(self._under_way)

    def restart(self) -> None:
        self._left = dict.fromkeys(self._names, self.options.passes)
        self._under_way.clear()
        self._reduced.clear()

    def finish(self) -> None:
        """Reduces what no hook has submitted, and waits for all."""
        for parameter in self._names:
            if parameter.requires_grad and parameter not in self._reduced:
                self._submit(self._group_of.get(parameter, [parameter]))
        for reduction in self._under_way:
            self._take(reduction)
        self.restart()

    def _on_gradient(self, parameter: Tensor) -> None:
        if parameter in self._reduced or self._left[parameter] <= 0:
            raise AssertionError(
                f"{self._names[parameter]}: gradients were computed more than "
                "backward_passes_per_step times before optimizer.step(): increase it"
            )
        self._left[parameter] -= 1
        group = self._group_of.get(parameter, [parameter])
        if all(self._left[each] == 0 for each in group):
            self._submit(group)

    def _submit(self, group: list[Tensor]) -> None:
        for parameter in group:
            if parameter.grad is None:  # other ranks may have one
                parameter.grad = torch.zeros_like(parameter)
        self._reduced.update(group)
        gradients = [parameter.grad for parameter in group if parameter.grad is not None]
        own = self.options
        name = self._names[group[0]]
        if gradients[0].is_sparse and not own.sparse_as_dense:
            handle = collectives.sparse_allreduce_async(gradients[0], name, own.op, own.process_set)
            self._under_way.append(_Reduction(handle, group, [None]))
            return
        dense = [each.to_dense() if each.is_sparse else each for each in gradients]
        sent = [own.compression.compress(each) for each in dense]
        reduced = self._reduce([tensor for tensor, _ in sent], group[0])
        self._under_way.append(_Reduction(reduced, group, [context for _, context in sent]))

    def _reduce(self, tensors: list[Tensor], first: Tensor) -> Handle:
        """The request of a step is usually that of the step before, which is made once."""
        own = self.options
        kinds = own.process_set.process_set_id, [(each.dtype, each.shape) for each in tensors]
        known, request = self._requests.get(first, (None, None))
        if request is not None and known == kinds and not tensors[0].requires_grad:
            return submit_again(request, tensors, lambda results: results)
        factors: dict[str, Any] = {}
        if own.op == ReduceOp.Average:
            factors = {"prescale_factor": 1 / own.predivide, "postscale_factor": own.predivide}
        submit = collectives.grouped_allreduce_async_
        name = self._names[first]
        handle = submit(tensors, name=name, op=own.op, process_set=own.process_set, **factors)
        self._requests[first] = kinds, handle.request
        return handle

    def _take(self, reduction: _Reduction) -> None:
        results = collectives.synchronize(reduction.handle)
        if isinstance(results, Tensor):
            reduction.parameters[0].grad = results
            return
        parts = zip(reduction.parameters, results, reduction.contexts, strict=True)
        for parameter, result, context in parts:
            gradient = self.options.compression.decompress(result, context)
            if gradient is not parameter.grad:
                parameter.grad = gradient


class _Distributed:
    """Derived from together with the class of an optimizer."""

    _reducer: _Reducer | None
    _synchronized: bool
    _skipped: bool

    def synchronize(self) -> None:
        """Waits for the gradients of all ranks, for example to clip them before step()."""
        if self._reducer is not None:
            self._reducer.finish()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Around step(), after synchronize()."""
        self._skipped = True
        try:
            yield
        finally:
            self._skipped = False

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if not self._skipped:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() after optimizer.synchronize() reduces the gradients again: "
                    "write `with optimizer.skip_synchronize(): optimizer.step()`",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)  # type: ignore[misc]

    def zero_grad(self, *arguments: Any, **named: Any) -> Any:
        if self._reducer is not None and self._reducer.is_under_way():
            raise AssertionError(
                "optimizer.zero_grad() after loss.backward() and before optimizer.step() loses "
                "gradients that are being reduced: call optimizer.synchronize() first"
            )
        return super().zero_grad(*arguments, **named)  # type: ignore[misc]

    def load_state_dict(self, state_dict: Any) -> Any:
        if self._reducer is not None:
            self._reducer.restart()
        self._synchronized = self._skipped = False
        return super().load_state_dict(state_dict)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        if self._reducer is not None:
            self._reducer.options.passes = passes
            self._reducer.restart()


class _AdasumDistributed:
    """With Adasum the steps of the ranks are reduced, not their gradients: each rank makes its own
    step, and all then take the sum of the steps."""

    _names: dict[Tensor, str]
    _process_set: ProcessSet

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        before = {parameter: parameter.detach().clone() for parameter in self._names}
        loss = super().step(closure)  # type: ignore[misc]
        handles = [
            (
                parameter,
                collectives.allreduce_async(
                    parameter.detach() - before[parameter],
                    name=name,
                    op=ReduceOp.Adasum,
                    process_set=self._process_set,
                ),
            )
            for parameter, name in self._names.items()
        ]
        with torch.no_grad():
            for parameter, handle in handles:
                parameter.copy_(before[parameter] + handle.wait())
        return loss

    def synchronize(self) -> None:
        """Nothing is under way before step()."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        raise AssertionError("skip_synchronize() has no meaning with op=hvd.Adasum: leave it out")


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Tensor]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = ReduceOp.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | list[list[Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An optimizer with the state of this one, whose step() takes the gradients of all ranks.

    Args:
        groups: that many groups of gradients, or the groups; each is reduced as a whole.
    """
    if gradient_predivide_factor != 1.0 and op != ReduceOp.Average:
        raise ValueError("gradient_predivide_factor is for op=hvd.Average only: leave it out")
    if num_groups:
        warnings.warn("num_groups is called groups since Horovod 0.21", stacklevel=2)
        groups = groups if groups is not None else num_groups
    names = _names_of(optimizer, named_parameters)
    mixin = _AdasumDistributed if op == ReduceOp.Adasum else _Distributed
    kind = type(optimizer)
    made: Any = object.__new__(type(kind.__name__, (mixin, kind), {}))
    made.__dict__.update(optimizer.__dict__)
    if op == ReduceOp.Adasum:
        made._names = {each: name for each, name in names.items() if each.requires_grad}
        made._process_set = process_set
        return made
    made._synchronized = made._skipped = False
    made._reducer = None
    if process_set.included() and (size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"):
        options = _Options(
            *(compression, backward_passes_per_step, op, gradient_predivide_factor),
            *(sparse_as_dense, process_set),
        )
        made._reducer = _Reducer(names, _groups_of(names, groups, process_set), options)
    return made


def _names_of(
    optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, Tensor]] | None
) -> dict[Tensor, str]:
    own = [each for group in optimizer.param_groups for each in group["params"]]
    if named is None:
        return {parameter: f"parameter.{number}" for number, parameter in enumerate(own)}
    pairs = list(named)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            "named_parameters must be pairs of a name and a parameter: pass "
            "model.named_parameters()"
        )
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"named_parameters has these names twice: {', '.join(twice)}")
    known = {id(parameter) for _, parameter in pairs}
    if missing := sum(id(parameter) not in known for parameter in own):
        raise ValueError(
            f"named_parameters lacks {missing} parameters of the optimizer: pass the "
            "named_parameters() of every model that it trains"
        )
    return {parameter: name for name, parameter in pairs}


def _groups_of(
    names: dict[Tensor, str], groups: int | list[list[Tensor]] | None, process_set: ProcessSet
) -> list[list[Tensor]]:
    """The ranks agree on the order of rank 0."""
    if groups is None:
        return []
    if isinstance(groups, list):
        _check_groups(groups)
        return [[each for each in group if each.requires_grad] for group in groups]
    if groups < 1:
        raise ValueError(f"groups is {groups}: give a number from 1, or lists of parameters")
    trained = {name: each for each, name in names.items() if each.requires_grad}
    root = (process_set.ranks or [0])[0]
    order = broadcast_object(list(trained), root, "optimizer.groups", process_set)
    count = -(-len(order) // groups)
    parts = [order[at : at + count] for at in range(0, len(order), count)]
    return [[trained[name] for name in part] for part in parts]


def _check_groups(groups: list[list[Tensor]]) -> None:
    members = [each for group in groups for each in group]
    if not all(isinstance(each, Tensor) for each in members):
        raise ValueError("groups must be lists of parameters")
    if len({id(each) for each in members}) < len(members):
        raise ValueError("groups has a parameter twice: each is in one group at most")
