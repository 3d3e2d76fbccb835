from collections.abc import Callable
from datetime import timedelta
from typing import Any

def create_backend(
    store: Any, rank: int, size: int, timeout: timedelta, group: str, global_ranks: list[int]
) -> Any:
    """Connects this rank to the others; a torch.distributed C++ Backend."""

def meet_by_launcher(timeout: timedelta) -> dict[str, str]:
    """The variables that torch's rendezvous needs; empty if no launcher started this process."""

def end_launcher_meeting() -> None:
    """When the ranks are connected: removes what told them where they meet."""

def register_device_backend(device_type: str, name: str, create: Any) -> None: ...
def take_wait_seconds() -> float:
    """The time since the last call in which this process waited for other ranks."""

def take_data_seconds() -> float | None:
    """The time since the last call in which this thread waited for a DataLoader; None: it has used
    none since the first call, which begins."""

def begin_flop_count() -> bool:
    """Counts the FLOPs of this thread from now on. False: the process counts already."""

def end_flop_count() -> float | None:
    """The FLOPs since begin_flop_count(); None: this thread has not called it."""

class StepFlops:
    """The FLOPs of a training step, from steps that are counted now and then."""

    def end_step(self) -> float | None: ...

def set_label(label: bytes) -> bytes:
    """Sets this thread's flight label, cut to 24 bytes; returns the label before."""

def pack_tensors(buffer: Any, tensors: list[Any]) -> None:
    """Copies the elements of all tensors into the buffer, one tensor after another."""

def unpack_tensors(buffer: Any, tensors: list[Any]) -> None:
    """Copies the elements of the buffer back."""

def shutdown_all() -> None:
    """Ends every backend of this process and joins its threads."""

def bind_training(extension: Any) -> None:
    """Adds all that follows to the extension, once."""

class ShardedModel:
    """A module's parameters and gradients in the engine; lockstep._shard hooks it to the module."""

    policy: str
    recomputes: bool
    rank: int
    world_size: int

    def parameter_names(self) -> list[str]:
        """Those that require a gradient; methods use their index here."""

    def owned_sizes(self) -> list[int]:
        """The number of elements of each that this rank owns."""

    def slices_are_whole(self) -> bool:
        """True if this rank's optimizer steps all elements."""

    def state(self) -> list[tuple[str, list[int], int, int, Any]]:
        """Name, shape, first and last element, and those elements: to be written to."""

    def check(self) -> None: ...
    def pre_forward(self, block: int, inputs: list[Any]) -> None: ...
    def post_forward(self, block: int, outputs: list[Any]) -> None: ...
    def set_sync(self, sync: bool) -> bool: ...
    def take_wait_time(self) -> float: ...
    def begin_step(self, clip_norm: float | None = None) -> tuple[bool, float]: ...
    def non_finite(self) -> str: ...
    def swap_in_slice(self, parameter: int) -> None: ...
    def drop_gradients(self) -> None: ...
    def end_step(self) -> None: ...
    def sync_parameters(self) -> None: ...
    def wait_parameter_sync(self) -> None: ...
    def average_buffers(self) -> None: ...
    def has_failed(self) -> bool:
        """True if a transfer has failed and no recovery followed."""

    def mean(self, value: float) -> float: ...
    def broadcast_from_rank_0(self, value: int) -> int: ...

    is_server: bool
    task: tuple[int, int, int] | None
    """A worker's, with parameter servers: the step, the share of it, and the number of shares."""

    run_rank: int
    servers: Comm

    def set_learning_rates(self, rates: list[float]) -> None: ...
    def start_server(self, first_step: int) -> None:
        """Collective over the servers, whose first steps must be equal."""

    def wait_update(self) -> tuple[int, bool, list[float]] | None:
        """Its number, whether it has gradients, learning rates; None: all workers have left."""

    def publish(self) -> None: ...
    def leave_servers(self) -> None: ...

def shard(
    module: Any,
    group: Any | None,
    own: Recovery | None,
    policy: str,
    blocks: list[Any],
    values_to_come: bool,
    apart: bool,
) -> ShardedModel: ...

class Comm:
    """A group of the ranks, for communication outside of the training."""

class RecoveryOutcome:
    leaves: bool
    step: int
    description: str
    reports: bool

class Recovery:
    """The ranks' own connections. slots: lockstep._checkpoints.OptimizerState of the optimizer."""

    is_replacement: bool
    generation: int
    def configure(self, checkpoints: str, rescale: bool) -> None: ...
    def new_group(self, seconds: float) -> Comm: ...
    def begin_step(self, step: int, model: ShardedModel, sampler: Sampler, slots: Any) -> None: ...
    def complete_replacement(
        self, model: ShardedModel, sampler: Sampler, slots: Any
    ) -> RecoveryOutcome: ...
    def recover(
        self, model: ShardedModel, sampler: Sampler, slots: Any, message: str
    ) -> RecoveryOutcome: ...

class RendezvousServer:
    """The rendezvous server that an agent runs for its attempt; secret: 64 hexadecimal digits."""

    port: int
    def __init__(self, host: str, secret: str) -> None: ...

def micro_batches_of(
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

class ClaimTime:
    at_save: ClaimTime
    at_open: ClaimTime
    never: ClaimTime

def open_checkpointer(
    folder: str,
    claiming: ClaimTime,
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
