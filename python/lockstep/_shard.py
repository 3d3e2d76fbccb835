"""shard(): a torch.nn.Module that many ranks train together; docs/design/train-python.md."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lockstep import _materialize, _step
from lockstep._capture import refuse_capture, refuse_compiled_graphs
from lockstep._compiled import compiled, leave_groups_at_exit
from lockstep._hidden import HiddenGradient
from lockstep._interop import torch_functions
from lockstep._report import warn_and_report
from lockstep._step_times import watch_steps
from lockstep._torch.launchers import launched_ranks

Model = TypeVar("Model", bound=nn.Module)
Blocks = Sequence[nn.Module] | Callable[[nn.Module], bool]

# The attribute that links a module and its parameters to their sharded model.
MARK = "_lockstep"


def shard(
    model: Model,
    policy: str = "ddp",
    *,
    blocks: Blocks | None = None,
    group: dist.ProcessGroup | None = None,
    device: torch.device | str | None = None,
    init: Callable[[nn.Module], Any] | None = None,
    weights: str | Path | Sequence[str | Path] | None = None,
) -> Model:
    """Makes the replicas of a module train as one; returns the same module.

    Every rank calls it with the same arguments. Rank 0's parameters and buffers are broadcast.
    Without torch.distributed.init_process_group it connects the ranks that lockstep run or torchrun
    has started, for one model of a process: lockstep.Training needs that to recover from the loss
    of a rank.

    Args:
        policy: what is divided among ranks: "ddp", "zero1", "zero2", "zero3", "mics:P",
            "mics:P+opt", or "auto"; followed by "+keep" to keep gathered parameters for backward,
            "+recompute" to keep only the inputs of blocks until then, and "+offload" to keep the
            optimizer's state in main memory and step it on the CPU. Or "ps:K", "ps:K,staleness=S",
            "ps:K,async": parameter servers; docs/guide/parameter-server.md.
        blocks: the modules whose parameters are gathered one at a time, or a predicate that selects
            them. By default the children of every ModuleList and Sequential.
        group: the ranks; by default all.
        device: the device of a model that comes from the meta device; by default the CPU.
        init: fills a module's own parameters, for a model from the meta device; by default the
            module's reset_parameters(), or _init_weights of a model of the transformers library.
            With weights it fills only tensors that no file has: buffers that are not saved.
        weights: safetensors files, or a folder of them, with the initial values.

    Raises:
        ValueError: an argument is wrong; the message says what to do.
    """
    if hasattr(model, MARK):
        raise ValueError("the module is sharded already: call lockstep.shard once")
    units = find_blocks(model, blocks)
    apart = policy.startswith("ps:")
    if apart:
        _check_servers(model, group, weights)
    else:
        group = _group(group)
    own = _connect() if group is None and not apart else None
    joining = own is not None and own.is_replacement  # then another rank's values come later
    from_meta = _materialize.allocate_from_meta(model, torch.device(device or "cpu"))
    _check_device(model)
    core = compiled().shard(
        model,
        group,
        own,
        policy,
        units,
        values_to_come=from_meta is not None or weights is not None or joining,
        apart=apart,
    )
    if apart:
        _leave_servers_at_exit(core)
    sharded = ShardedState(model, core, units, group, own)
    setattr(model, MARK, sharded)
    if own is not None:
        _connected.append(core)
    if from_meta is not None and weights is None:
        _materialize.draw(model, core, units, init, alone=joining)
    if weights is not None and not joining:
        _materialize.read(model, core, weights, from_meta, init)
    _step.watch_optimizers()
    watch_steps()
    torch_functions.replace()
    return model


@contextlib.contextmanager
def no_sync(model: nn.Module) -> Iterator[None]:
    """Around the backward of every micro-step of a step but the last."""
    core = sharded_of(model).core
    before = core.set_sync(False)
    try:
        yield
    finally:
        core.set_sync(before)


class ShardedState:
    """The state that shard() attaches to a module."""

    def __init__(
        self,
        model: nn.Module,
        core: Any,
        blocks: Sequence[nn.Module],
        group: dist.ProcessGroup | None,
        recovery: Any,
    ) -> None:
        self.core = core
        self.group = group  # the program's, or None
        self.recovery = recovery  # our own connections, which a rank failure may change; or None
        self.learning_rate_scale = 1.0
        self.blocks = list(blocks)
        self._form = _form_of(model)
        named = dict(model.named_parameters(remove_duplicate=False))
        self.parameters = [named[name] for name in core.parameter_names()]
        self.names: list[str] = core.parameter_names()
        self.device: torch.device = self.parameters[0].device
        casts = any(each.dtype == torch.float32 for each in self.parameters)
        self._warns_of_autocast = core.rank == 0 and casts and not core.recomputes
        self._autocast_cache_is_off = False
        for number, parameter in enumerate(self.parameters):
            setattr(parameter, MARK, (self, number))
        numbers = range(len(self.parameters))
        core.set_hidden_gradients([HiddenGradient.of(self, number) for number in numbers])
        self._check = _not_compiled(self._check_model)
        model.register_forward_pre_hook(self._pre_forward)
        for number, block in enumerate(self.blocks):
            self._wrap(number, block)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a sharded module is not to be copied or pickled: copy it before lockstep.shard, or "
            "save it by lockstep.Checkpoints or lockstep.state_dict"
        )

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__reduce__()

    def _wrap(self, number: int, block: nn.Module) -> None:
        """Not by hooks, because block.forward(x) would not run them."""
        if block._compiled_call_impl is None:
            block.forward = self._gathered(number, block.forward)
        else:  # by block.compile(), perhaps as one graph, which cannot contain a gather
            block._compiled_call_impl = self._gathered(number, block._compiled_call_impl)

    def _gathered(self, number: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The forward of a block with the engine's calls around it."""
        run = forward
        if self.core.recomputes:
            run = functools.partial(checkpoint, forward, use_reentrant=False)

        def pre_forward(*arguments: Any, **named: Any) -> None:
            refuse_capture(self.device, "a block of a sharded model runs")
            self._enter_autocast()
            self.core.pre_forward(number, [*tensors_in(arguments), *tensors_in(named)])

        def post_forward(output: Any) -> None:
            self.core.post_forward(number, list(tensors_in(output)))
            self._leave_autocast()

        enter, leave = _not_compiled(pre_forward), _not_compiled(post_forward)

        @functools.wraps(forward)
        def gathered(*arguments: Any, **named: Any) -> Any:
            enter(*arguments, **named)
            output = run(*arguments, **named)
            leave(output)
            return output

        return gathered

    def _enter_autocast(self) -> None:
        """Autocast's cache would keep a copy of all blocks' parameters until its context ends. That
        end also restores the cache, after an error in a block."""
        if not self.core.divides_parameters or not torch.is_autocast_enabled(self.device.type):
            return
        self._autocast_cache_is_off = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        if self._warns_of_autocast and torch.is_grad_enabled():
            self._warns_of_autocast = False
            warn_and_report(
                "autocast keeps a copy of each block's parameters from forward to backward, "
                f"although policy {self.core.policy} divides them: make them bfloat16 by "
                "model.bfloat16() before lockstep.shard, which keeps 32 bits for the optimizer, or "
                "add +recompute to the policy"
            )

    def _leave_autocast(self) -> None:
        if self._autocast_cache_is_off:
            torch.set_autocast_cache_enabled(True)
            self._autocast_cache_is_off = False

    def _pre_forward(self, module: nn.Module, arguments: Any) -> None:
        self._check()

    def _check_model(self) -> None:
        refuse_capture(self.device, "a sharded model runs")
        for part, parameters, children in self._form:
            if not _same(part._parameters, parameters) or not _same(part._modules, children):
                raise ValueError(
                    f"the {type(part).__name__} has other parameters or submodules than at "
                    "lockstep.shard: change the model before"
                )
        self.core.check()


def sharded_of(model: nn.Module) -> ShardedState:
    found = getattr(model, MARK, None)
    if not isinstance(found, ShardedState):
        raise ValueError("the module is not sharded: call lockstep.shard first")
    return found


def find_blocks(model: nn.Module, blocks: Blocks | None) -> list[nn.Module]:
    """The modules that are gathered one at a time."""
    if blocks is None:
        return list(_children_of_lists(model))
    if callable(blocks):
        return [module for module in model.modules() if module is not model and blocks(module)]
    return list(blocks)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in the arguments or the result of a forward."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors_in_all(value.values())
    elif isinstance(value, list | tuple):
        yield from _tensors_in_all(value)
    elif dataclasses.is_dataclass(value):
        yield from _tensors_in_all(
            getattr(value, field.name) for field in dataclasses.fields(value)
        )


def _tensors_in_all(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        yield from tensors_in(value)


def _children_of_lists(module: nn.Module) -> Iterator[nn.Module]:
    """The children of the outermost lists; for lists of lists the children of the inner ones."""
    for child in module.children():
        is_block = isinstance(module, nn.ModuleList | nn.Sequential)
        is_list = isinstance(child, nn.ModuleList | nn.ModuleDict | nn.ParameterList)
        if is_block and not is_list:
            if next(child.parameters(), None) is not None:
                yield child
        else:
            yield from _children_of_lists(child)


def _not_compiled(function: Callable[..., None]) -> Callable[..., None]:
    """torch.compile compiles what lies between calls of such functions."""
    result: Callable[..., None] = torch.compiler.disable(
        function, reason="lockstep exchanges parameters and gradients with the other ranks there"
    )
    return result


def _check_servers(model: nn.Module, group: Any, weights: Any) -> None:
    """Parameter servers: the ranks share no group, and the first server's values are all ranks'."""
    if group is not None:
        raise ValueError(
            "with policy ps:K a worker may end without the others, and no group has all ranks: "
            "leave group= out"
        )
    if weights is not None or any(each.is_meta for each in model.parameters()):
        raise ValueError(
            "policy ps:K starts with the values of the first server's module: give the module "
            "its values before, without weights= and the meta device"
        )


def _leave_servers_at_exit(core: Any) -> None:
    """In order: the servers need not wait for another process of this rank."""
    leave_groups_at_exit()
    reference = weakref.ref(core)

    def leave() -> None:
        alive = reference()
        if alive is not None:
            with contextlib.suppress(Exception):  # the servers may have ended
                alive.leave_servers()

    atexit.register(leave)


def _check_device(model: nn.Module) -> None:
    """NCCL and the program's own tensors use the current device. Refuses a model on another."""
    first = next((each.device for each in model.parameters() if each.requires_grad), None)
    if first is None or first.type == "cpu":
        return
    refuse_compiled_graphs(model, first)
    current = torch.accelerator.current_device_index()
    if first.index != current:
        raise ValueError(
            f"the model is on {first}, and the current device is {first.type}:{current}: call "
            f"torch.{first.type}.set_device(LOCAL_RANK), with the number of that variable, before "
            "the model is made"
        )


def _group(group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    if group is not None:
        return group
    if dist.is_available() and dist.is_initialized():
        return dist.group.WORLD
    return None


# The model whose ranks this process has connected, if there is one.
_connected: list[Any] = []


def _connect() -> Any | None:
    """Connects the ranks of the run according to their environment; None: there is one only."""
    if "WORLD_SIZE" not in os.environ and (ranks := launched_ranks()) > 1:
        raise ValueError(
            f"srun or mpirun has started {ranks} ranks, which lockstep.shard does not connect: "
            'call torch.distributed.init_process_group("lockstep") before'
        )
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    if _connected:
        raise ValueError(
            "lockstep.shard connects the ranks for one model of a process: for more, call "
            'torch.distributed.init_process_group("lockstep") before'
        )
    leave_groups_at_exit()
    return compiled().Recovery()


def rank_and_world_size() -> tuple[int, int]:
    """This rank, and the world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    if _connected:
        return _connected[0].rank, _connected[0].world_size
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "the ranks are not connected: call lockstep.shard, or "
            'torch.distributed.init_process_group("lockstep"), before'
        )
    return 0, 1


Form = list[tuple[nn.Module, dict[str, Any], dict[str, Any]]]


def _form_of(model: nn.Module) -> Form:
    return [(module, dict(module._parameters), dict(module._modules)) for module in model.modules()]


def _same(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    if len(now) != len(before):
        return False
    return all(now.get(name) is one for name, one in before.items())
