from collections.abc import Callable
from datetime import timedelta
from typing import Any

def create_backend(
    store: Any, rank: int, size: int, timeout: timedelta, group: str, global_ranks: list[int]
) -> Any:
    """Connects this rank to the others; a torch.distributed C++ Backend."""

def set_label(label: bytes) -> bytes:
    """Makes it this thread's flight label, cut to 24 bytes; returns what it was before."""

def shutdown_all() -> None:
    """Ends every backend of this process and joins its threads."""

class ShardedModel:
    """A module's parameters and gradients in the engine; lockstep._shard hooks it to the module."""

    policy: str
    recomputes: bool
    rank: int
    world_size: int

    def parameter_names(self) -> list[str]:
        """Of those that require a gradient; methods take their places here."""

    def owned_sizes(self) -> list[int]:
        """How many elements of each are this rank's."""

    def slices_are_whole(self) -> bool:
        """Whether this rank's optimizer steps all elements."""

    def state(self) -> list[tuple[str, list[int], int, int, Any]]:
        """Name, shape, first and last element, and those elements: to be written to."""

    def check(self) -> None: ...
    def enter(self, block: int, inputs: list[Any]) -> None: ...
    def leave(self, block: int, outputs: list[Any]) -> None: ...
    def set_sync(self, sync: bool) -> bool: ...
    def take_waited(self) -> float: ...
    def begin_step(self, clip_norm: float | None = None) -> tuple[bool, float]: ...
    def not_finite(self) -> str: ...
    def lend(self, parameter: int) -> None: ...
    def drop_gradients(self) -> None: ...
    def end_step(self) -> None: ...
    def spread(self) -> None: ...
    def settle(self) -> None: ...
    def average_buffers(self) -> None: ...
    def broken(self) -> bool:
        """Whether a transfer has failed, from which nobody has recovered."""

    def mean(self, value: float) -> float: ...
    def of_rank_0(self, value: int) -> int: ...

def shard(
    module: Any,
    group: Any | None,
    own: Recovery | None,
    policy: str,
    blocks: list[Any],
    values_to_come: bool,
) -> ShardedModel: ...

class Comm:
    """A group of the ranks, for what is said beside the training."""

class Recovered:
    leaves: bool
    step: int
    story: str
    tells: bool

class Recovery:
    """The ranks' own connections. slots: lockstep._checkpoints.Slots of the optimizer."""

    joining: bool
    generation: int
    def set_up(self, checkpoints: str, rescale: bool) -> None: ...
    def apart(self, seconds: float) -> Comm: ...
    def begin_step(self, step: int, model: ShardedModel, sampler: Sampler, slots: Any) -> None: ...
    def complete(self, model: ShardedModel, sampler: Sampler, slots: Any) -> Recovered: ...
    def recover(
        self, model: ShardedModel, sampler: Sampler, slots: Any, message: str
    ) -> Recovered: ...

class MeetingPlace:
    """Where ranks meet, as an agent holds it for its attempt; secret: 64 hexadecimal digits."""

    port: int
    def __init__(self, host: str, secret: str) -> None: ...

def share_of_batch(
    sampler: Sampler, at_once: int, model: ShardedModel
) -> list[tuple[list[int], float]]: ...

class Sampler:
    seed: int
    cursor: int
    global_batch: int
    def __init__(self, samples: int, global_batch: int, seed: int) -> None: ...
    def next(self, rank: int, ranks: int) -> list[int]: ...
    def advance(self) -> None: ...

class Checkpointer:
    def save(
        self,
        model: ShardedModel,
        step: int,
        optimizer: str,
        optimizer_steps: int,
        slots: list[tuple[str, int, Any]],
        sampler: Sampler,
        notes: dict[str, str],
    ) -> float: ...
    def finish(self) -> None: ...

class Claiming:
    at_save: Claiming
    at_opening: Claiming
    never: Claiming

def open_checkpointer(
    folder: str,
    claiming: Claiming,
    recoveries: int,
    keep: int,
    group: Any | None,
    saved: Callable[[int, str], None],
    kept_out: Callable[[str, str], None],
) -> Checkpointer: ...
def resume(
    folder: str,
    model: ShardedModel,
    optimizer: str,
    slots: Callable[[list[str]], list[tuple[str, int, Any]]],
    set_steps: Callable[[int], None],
    sampler: Sampler,
) -> int: ...
def safetensors_header(words: bytes, size: int) -> list[tuple[str, str, list[int], int, int]]: ...
