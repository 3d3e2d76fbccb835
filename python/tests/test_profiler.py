"""The calls of the backend in torch's profilers."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from test_labels import labels
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

import lockstep

CPU = [ProfilerActivity.CPU]


def calls(events: Any) -> list[tuple[str, list[list[int]]]]:
    """Names and shapes of our events, in the order in which they began."""
    ours = [event for event in events if event.name.startswith("lockstep:")]
    assert all(event.is_async and event.count == 1 for event in ours)
    ours.sort(key=lambda event: event.time_range.start)
    return [(event.name, event.input_shapes) for event in ours]


def call_each(rank: int) -> None:
    row, rows = torch.ones(2), torch.ones(4)
    dist.all_reduce(row)
    dist.all_reduce(torch.ones(3, 4), async_op=True).wait()
    dist.broadcast(row, 0)
    dist.reduce(row, 0)
    dist.all_gather([torch.ones(2), torch.ones(2)], row)
    dist.all_gather_into_tensor(rows, row)
    dist.reduce_scatter(row, [torch.ones(2), torch.ones(2)])
    dist.reduce_scatter_tensor(row, rows)
    dist.gather(row, [torch.ones(2), torch.ones(2)] if rank == 0 else None)
    dist.scatter(row, [torch.ones(2), torch.ones(2)] if rank == 0 else None)
    dist.all_to_all_single(torch.ones(4), rows)
    dist.all_to_all([torch.ones(1), torch.ones(1)], [torch.ones(1), torch.ones(1)])
    dist.barrier()


def profile_each(rank: int) -> list[tuple[str, list[list[int]]]]:
    with torch_profile(activities=CPU, record_shapes=True) as profiler:
        call_each(rank)
    return calls(profiler.events())


def test_each_collective_is_an_event_with_the_shapes_of_its_inputs() -> None:
    row, rows = [[2]], [[4]]
    for rank, found in enumerate(run_ranks(2, profile_each)):
        assert found == [
            ("lockstep:all_reduce", row),
            ("lockstep:all_reduce", [[3, 4]]),
            ("lockstep:broadcast", row),
            ("lockstep:reduce", row),
            ("lockstep:all_gather", row),
            ("lockstep:all_gather_into_tensor", row),
            ("lockstep:reduce_scatter", row * 2),
            ("lockstep:reduce_scatter_tensor", rows),
            ("lockstep:gather", row),
            ("lockstep:scatter", row * 2 if rank == 0 else []),
            ("lockstep:all_to_all_single", rows),
            ("lockstep:all_to_all", [[1], [1]]),
            ("lockstep:barrier", []),
        ]


def exchange(rank: int) -> None:
    other, tensor = 1 - rank, torch.ones(rank + 1)
    received = torch.ones(other + 1)
    if rank == 0:
        dist.send(tensor, other)
        dist.recv(received, other)
    else:
        dist.recv(received)  # from any source
        dist.send(tensor, other)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, tensor, other), dist.P2POp(dist.irecv, received, other)]
    )
    for work in works:
        work.wait()


def profile_exchange(rank: int) -> list[tuple[str, list[list[int]]]]:
    with torch_profile(activities=CPU, record_shapes=True) as profiler:
        exchange(rank)
    return calls(profiler.events())


def test_each_send_and_receive_is_an_event_also_in_a_batch() -> None:
    first, second = run_ranks(2, profile_exchange)
    assert first == [
        ("lockstep:send", [[1]]),
        ("lockstep:recv", [[2]]),
        ("lockstep:send", [[1]]),
        ("lockstep:recv", [[2]]),
    ]
    assert second == [
        ("lockstep:recvAnySource", [[1]]),
        ("lockstep:send", [[2]]),
        ("lockstep:send", [[2]]),
        ("lockstep:recv", [[1]]),
    ]


def profile_with_autograds(rank: int) -> list[tuple[str, list[list[int]]]]:
    with torch.autograd.profiler.profile(record_shapes=True) as profiler:
        dist.all_reduce(torch.ones(5))
        dist.all_reduce(torch.ones(6), async_op=True).wait()
    averages = {event.key: event.count for event in profiler.key_averages()}
    assert averages["lockstep:all_reduce"] == 2
    return calls(profiler.function_events)


def test_autograds_profiler_shows_them_too() -> None:
    for found in run_ranks(2, profile_with_autograds):
        assert found == [("lockstep:all_reduce", [[5]]), ("lockstep:all_reduce", [[6]])]


def receive_without_a_wait(rank: int) -> tuple[float, float]:
    """When the recv ended, and when the last of the later calls began."""
    received, other = torch.zeros(3), 1 - rank
    with torch_profile(activities=CPU) as profiler:
        work = dist.irecv(received, other)
        dist.send(torch.ones(3), other)
        while received[2] == 0:
            pass
        for _ in range(200):
            dist.barrier()
    assert work is not None  # it outlives the profiler
    work.wait()
    ours = {event.name: event.time_range for event in profiler.events()}
    assert ours["lockstep:recv"].start < ours["lockstep:recv"].end
    return ours["lockstep:recv"].end, ours["lockstep:barrier"].start


def test_an_event_ends_with_its_call_although_nothing_waits_for_it() -> None:
    for ended, last_call in run_ranks(2, receive_without_a_wait):
        assert ended < last_call


def stop_profilers_early(rank: int) -> None:
    """A call that is not done when its profiler stops, and ends during the next one."""
    for _ in range(20):
        received = torch.zeros(3)
        with torch_profile(activities=CPU):
            work = dist.irecv(received, 1 - rank)
        with torch_profile(activities=CPU) as profiler:
            dist.send(torch.ones(3), 1 - rank)
            assert work is not None
            work.wait()
        assert [name for name, _ in calls(profiler.events())] == ["lockstep:send"]


def test_a_call_may_end_after_its_profiler() -> None:
    run_ranks(2, stop_profilers_early)


def refuse(rank: int) -> list[str]:
    with torch_profile(activities=CPU) as profiler:
        with contextlib.suppress(ValueError):
            dist.broadcast(torch.ones(2), group=dist.group.WORLD, src=7)
        dist.all_reduce(torch.ones(2))
    return [name for name, _ in calls(profiler.events())]


def test_a_refused_call_leaves_the_profiler_usable() -> None:
    for found in run_ranks(2, refuse):
        assert found[-1] == "lockstep:all_reduce"


def profile_labels(rank: int) -> None:
    with torch_profile(activities=CPU), lockstep.label("layers.7"):
        dist.all_reduce(torch.ones(3))
        with torch.profiler.record_function("loss"):
            work = dist.all_reduce(torch.ones(3), async_op=True)
        dist.barrier()
        work.wait()
    dist.barrier()


def test_the_events_are_no_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_FLIGHT_DIR", str(tmp_path))
    run_ranks(2, profile_labels)
    (record,) = tmp_path.glob("rank-0.*.flight")
    assert labels(record)[:4] == ["layers.7", "loss", "layers.7", ""]


def profile_sharded_model(rank: int) -> set[str]:
    model = lockstep.shard(torch.nn.Linear(4, 4), policy="zero2")
    optimizer = torch.optim.SGD(model.parameters())
    with torch_profile(activities=CPU, record_shapes=True) as profiler:
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {name for name, _ in calls(profiler.events())}


def test_the_calls_of_a_sharded_model_are_events(capfd: pytest.CaptureFixture[str]) -> None:
    for names in run_ranks(2, profile_sharded_model):
        assert "lockstep:reduce_scatter_tensor" in names
    assert "Exception in RecordFunction" not in capfd.readouterr().err
