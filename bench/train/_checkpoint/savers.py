"""The savers of a training state: the state of one rank, and how each saver stores it.

Each has `trainer`, if it can also train, and

    def save(self, step: int) -> tuple[float, float]

which returns when the training could have gone on, and when all was durable, in seconds of
CLOCK_MONOTONIC. A saver that goes on copying while the training continues has

    def stall(self, step: int) -> float

which takes a step of training behind the save: the seconds of the call, and those that the
optimizer then waited.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from _train.field import SIZES
from _train.model import make_model
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import lockstep
from lockstep._shard import sharded_of

PIECE = 4 << 20  # bytes of one write
PAGE = 4096


ROWS = 4  # of a rank's batch in the step after a save


class Saver(Protocol):
    backend: str | None  # None: no communication

    def save(self, step: int) -> tuple[float, float]: ...


def saved_bytes(size: str) -> int:
    """Parameters and AdamW's two moments, of all ranks."""
    return 3 * SIZES[size].bytes


class Training:
    """A model with its optimizer, at the given number of rows a rank and step."""

    def __init__(self, model: nn.Module, size: str) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self._width = SIZES[size].width
        self.steps(1, 4)  # so that there is a state

    def steps(self, count: int, rows: int) -> None:
        for _ in range(count):
            self.model(torch.ones(rows, self._width)).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


class Engine:
    """lockstep.Checkpoints, everything divided among all ranks."""

    backend = "lockstep"

    def __init__(self, size: str, folder: Path) -> None:
        self.training = Training(lockstep.shard(make_model(size), "zero3"), size)
        self._checkpoints = lockstep.Checkpoints(
            folder, self.training.model, self.training.optimizer
        )

    def begin(self, step: int) -> None:
        self._checkpoints.save(step)

    def finish(self) -> None:
        self._checkpoints.finish()

    def save(self, step: int) -> tuple[float, float]:
        self.begin(step)
        held = time.monotonic()
        self.finish()
        return held, time.monotonic()

    def stall(self, step: int) -> float:
        core = sharded_of(self.training.model).core
        core.take_wait_time()
        begin = time.monotonic()
        self.begin(step)
        held = time.monotonic() - begin
        self.training.steps(1, ROWS)
        waited = float(core.take_wait_time())
        self.finish()
        return held + waited


class Dcp:
    """torch.distributed.checkpoint.async_save of FSDP2's shards, as its tutorial has it."""

    backend = "gloo"

    def __init__(self, size: str, folder: Path) -> None:
        model = make_model(size)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for unit in (*model, model):
            fully_shard(unit, mesh=mesh)
        training = Training(model, size)
        self._folder = folder
        self._group = dist.new_group(backend="gloo")
        model_state, optimizer_state = get_state_dict(training.model, training.optimizer)
        self._state: dict[str, Any] = {"model": model_state, "optimizer": optimizer_state}

    def _stager(self) -> DefaultStager | None:
        return None  # a new one for each save

    def save(self, step: int) -> tuple[float, float]:
        future = dcp.async_save(
            self._state,
            checkpoint_id=self._folder / f"step-{step}",
            process_group=self._group,
            async_stager=self._stager(),
        )
        held = time.monotonic()
        future.result(timeout=300)
        return held, time.monotonic()


class DcpKept(Dcp):
    """The same with one stager for all saves, which keeps the memory for copies."""

    def __init__(self, size: str, folder: Path) -> None:
        self._kept = DefaultStager(StagingOptions(False, False, False, False))
        super().__init__(size, folder)

    def _stager(self) -> DefaultStager | None:
        return self._kept


class Files:
    """The disk's rate for bytes at hand: written through the page cache, then synced."""

    backend = None

    def __init__(self, size: str, folder: Path) -> None:
        share = saved_bytes(size) // dist.get_world_size()
        share -= share % PAGE
        self._folder = folder
        self._bytes = mmap.mmap(-1, share)  # page-aligned, as O_DIRECT asks for
        for at in range(0, share, PIECE):
            self._bytes[at : at + PIECE] = os.urandom(min(PIECE, share - at))

    def save(self, step: int) -> tuple[float, float]:
        held = time.monotonic()
        path = self._folder / f"step-{step}-{dist.get_rank()}"
        file = self._open(path, os.O_WRONLY | os.O_CREAT)
        with memoryview(self._bytes) as view:
            for at in range(0, len(view), PIECE):
                with view[at : at + PIECE] as piece:
                    if os.write(file, piece) < len(piece):
                        raise OSError(f"{path}: the disk is full")
        os.fsync(file)
        os.close(file)
        return held, time.monotonic()

    def _open(self, path: Path, flags: int) -> int:
        return os.open(path, flags)


class DirectFiles(Files):
    """The same without the page cache, if the file system supports that."""

    def _open(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_DIRECT)
        except OSError:
            return os.open(path, flags)


SAVERS: dict[str, Any] = {
    "engine": Engine,
    "dcp": Dcp,
    "dcp_kept": DcpKept,
    "files": Files,
    "direct_files": DirectFiles,
}
