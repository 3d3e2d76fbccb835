"""The labels of calls in the flight record."""

import struct
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch import nn
from torch.distributed.fsdp import fully_shard

import lockstep

STATE_NAMES = 4096  # bytes to the first slot
SLOT = struct.Struct("<11Q24s4Q")  # src/comm/flight/format.h


def labels(record: Path) -> list[str]:
    """The labels of the calls, in the order in which they were made."""
    content = record.read_bytes()
    slots = [SLOT.unpack_from(content, at) for at in range(STATE_NAMES, len(content), SLOT.size)]
    called = sorted((slot[1], slot[11]) for slot in slots if slot[1] > 0)
    return [label.rstrip(b"\0").decode() for _, label in called]


def call_under_labels(rank: int) -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    with lockstep.label("layers.7"):
        dist.all_reduce(tensor)
        with lockstep.label("a name too long for its place"):
            dist.all_reduce(tensor)
        with torch.profiler.record_function("loss"):
            dist.all_reduce(tensor, async_op=True).wait()
        dist.barrier()
    if rank == 0:
        dist.send(tensor, 1)
    else:
        with lockstep.label("stage.1"):
            dist.recv(tensor, 0)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_FLIGHT_DIR", str(tmp_path))
    return tmp_path


def test_a_label_stands_with_every_call_of_its_block(records: Path) -> None:
    run_ranks(2, call_under_labels)
    for rank, last in ((0, ""), (1, "stage.1")):
        (record,) = records.glob(f"rank-{rank}.*.flight")
        expected = ["", "layers.7", "a name too long for its ", "loss", "layers.7", last]
        assert labels(record)[: len(expected)] == expected


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            rows = layer(rows)
        return rows


def train_shards(rank: int) -> None:
    model = Layers()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    model(torch.ones(2, 8)).sum().backward()


def test_the_units_of_fsdp_name_their_calls(records: Path) -> None:
    run_ranks(2, train_shards)
    (record,) = records.glob("rank-0.*.flight")
    assert {"layers.0", "layers.1"} <= set(labels(record))


def wait_in_vain(rank: int) -> str:
    # Over Gloo the ranks wait for each other without our code.
    other = dist.new_group(backend="gloo")
    if rank == 0:
        with lockstep.label("layers.3"), pytest.raises(dist.DistBackendError):
            dist.all_reduce(torch.ones(3))
    dist.barrier(group=other)
    with pytest.raises(dist.DistBackendError) as error:
        dist.barrier()
    return str(error.value)


def test_all_ranks_raise_the_same_and_name_who_is_late_for_what() -> None:
    first, second = run_ranks(2, wait_in_vain, timeout=2)
    assert first == second
    assert "rank 1 has not entered #1 all_reduce(layers.3, 12 B), last seen" in first
