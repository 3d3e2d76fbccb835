"""lockstep.horovod.torch: ranks that are late, that leave and that are lost; files; its place."""

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import fork_all, join_group, listening_socket, run_ranks, run_ranks_to_the_end

import lockstep.horovod.torch as hvd
from lockstep.horovod.torch import worker
from lockstep.horovod.torch.meeting import Meeting
from lockstep.horovod.torch.negotiation import Arrival, Negotiation
from lockstep.horovod.torch.requests import Request, Response


def request(name: str, shape: tuple[int, ...] = (2,), call: str = "allreduce") -> Request:
    return Request(name, call, 0, "torch.float32", "cpu", (shape,))


def agree(negotiation: Negotiation, *arrivals: Arrival) -> list[Response]:
    slots = negotiation.receive(arrivals)
    known = negotiation.answers(slots)
    negotiation.use(each.key for each in known)
    return known + negotiation.agree()


def encode(negotiation: Negotiation, rank: int, *requests: Request) -> tuple[int, list[Request]]:
    return negotiation.encode(rank, [(each.key, each) for each in requests])


def names(responses: list[Response]) -> list[str]:
    return [each.first.name for each in responses]


def sent(*names: str) -> Arrival:
    return Arrival(0, [request(name) for name in names])


def test_a_name_is_ready_when_every_rank_has_requested_it() -> None:
    agreed = Negotiation(2, 8)
    assert agree(agreed, sent("a", "b"), Arrival()) == []
    assert names(agree(agreed, Arrival(), sent("b"))) == ["b"]
    assert names(agree(agreed, Arrival(), sent("a"))) == ["a"]
    assert agreed.is_idle()


def test_an_equal_request_is_one_slot_and_another_shape_is_sent_whole() -> None:
    agreed = Negotiation(2, 8)
    agree(agreed, sent("a"), sent("a"))
    assert encode(agreed, 0, request("a")) == (0b1, [])
    assert encode(agreed, 1, request("a", (3,))) == (0, [request("a", (3,))])
    assert names(agree(agreed, Arrival(0b1), Arrival(0b1))) == ["a"]
    failed = agree(agreed, Arrival(0b1), Arrival(0, [request("a", (3,))]))
    assert failed[0].error == (
        "a: rank 0 submits shape [2], rank 1 [3]: submit one shape under one name"
    )


def test_a_slot_is_ready_when_every_rank_of_its_process_set_has_sent_it() -> None:
    agreed = Negotiation(3, 8)
    agreed.add_set(1, [0, 2])
    pair = Arrival(0, [request("a")._replace(process_set=1)])
    agree(agreed, pair, Arrival(), pair)
    agree(agreed, sent("b", "c"), sent("b", "c"), sent("b", "c"))
    assert agree(agreed, Arrival(0b111), Arrival(0b010), Arrival()) == []
    assert not agreed.is_idle()
    assert names(agree(agreed, Arrival(), Arrival(), Arrival(0b111))) == ["a", "b"]
    assert names(agree(agreed, Arrival(), Arrival(0b100), Arrival())) == ["c"]
    assert agreed.is_idle()


def test_a_slot_that_waits_meets_another_shape() -> None:
    agreed = Negotiation(3, 8)
    agree(agreed, *[sent("a", "b")] * 3)
    assert agree(agreed, Arrival(0b11), Arrival(), Arrival()) == []
    assert agree(agreed, Arrival(), Arrival(0, [request("a", (3,))]), Arrival()) == []
    a, b = sorted(agree(agreed, Arrival(), Arrival(0b10), Arrival(0b11)), key=lambda each: each.key)
    assert (a.first.name, b.first.name, b.error) == ("a", "b", None)
    assert a.error is not None and "rank 0 submits shape [2], rank 1 [3]" in a.error
    assert names(agree(agreed, *[Arrival(0b11)] * 3)) == ["a", "b"]  # the cache has the first


def test_a_slot_that_waits_is_ready_without_a_rank_that_joins() -> None:
    agreed = Negotiation(2, 8)
    agree(agreed, sent("a"), sent("a"))
    assert agree(agreed, Arrival(0b1), Arrival()) == []
    assert names(agree(agreed, Arrival(), Arrival(joined=True))) == ["a"]
    assert names(agree(agreed, Arrival(0b1), Arrival(joined=True))) == ["a"]


def test_a_full_cache_forgets_the_name_that_was_used_longest_ago() -> None:
    agreed = Negotiation(1, 2)
    for name in ("a", "b", "a", "c"):
        agree(agreed, sent(name))
    requests = [request("a"), request("b"), request("c")]
    assert encode(agreed, 0, *requests) == (0b11, [request("b")])
    agree(agreed, Arrival(0b01))  # "a" is used by its slot
    agree(agreed, sent("b"))
    assert encode(agreed, 0, *requests) == (0b11, [request("c")])


def test_a_name_that_waits_is_answered_after_the_cache_has_forgotten_it() -> None:
    agreed = Negotiation(2, 1)
    agree(agreed, sent("a"), sent("a"))
    assert agree(agreed, Arrival(0b1), Arrival()) == []
    assert names(agree(agreed, sent("b"), sent("b"))) == ["b"]
    assert encode(agreed, 1, request("a")) == (0, [request("a")])
    assert names(agree(agreed, Arrival(), sent("a"))) == ["a"]
    assert agreed.is_idle()


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_stall_names_the_ranks_and_is_repeated_after_the_same_time(is_cached: bool) -> None:
    now = 100.0
    agreed = Negotiation(3, 8, lambda: now)
    if is_cached:
        agree(agreed, *[sent("late")] * 3)
    agree(agreed, Arrival(0b1) if is_cached else sent("late"), Arrival(), Arrival())
    now = 159.0
    assert agreed.stalls(60) == []
    now = 160.0
    (stall,) = agreed.stalls(60)
    assert (stall.name, stall.present, stall.missing) == ("late", [0], [1, 2])
    now = 219.0
    assert agreed.stalls(60) == []
    now = 220.0
    assert len(agreed.stalls(60)) == 1
    if is_cached:  # a second rank requests it in another way: it has waited as long as before
        agree(agreed, Arrival(), Arrival(0, [request("late", (3,))]), Arrival())
        now = 280.0
        (stall,) = agreed.stalls(60)
        assert (stall.seconds, stall.present, stall.missing) == (180, [0, 1], [2])


def late(rank: int) -> str:
    os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "0.2"
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        hvd.init()
        handle = None
        if rank != 2:
            handle = hvd.allreduce_async(torch.ones(1), name="gradient")
        if rank == 0:
            end = time.monotonic() + 10
            while "gradient" not in said.getvalue() and time.monotonic() < end:
                time.sleep(0.02)
        hvd.barrier()
        handle = handle or hvd.allreduce_async(torch.ones(1), name="gradient")
        handle.wait()
        hvd.barrier()
    return said.getvalue()


def test_a_name_that_a_rank_lacks_is_reported_with_that_rank() -> None:
    said = run_ranks(3, late)
    assert "allreduce.gradient has waited for 0 s: ranks [0, 1] submitted it, ranks [2]" in said[0]
    assert said[1] == said[2] == ""


def submits_small_tensors(rank: int, folder: Path) -> int:
    """The number of cycles in ten steps."""
    hvd.init()
    path = folder / f"timeline-{rank}.json"
    for step in range(12):
        if step == 2:  # from now on all ranks know how many requests a step has
            hvd.start_timeline(str(path), mark_cycles=True)
        handles = [hvd.allreduce_async_(torch.ones(1), name=f"small.{n}") for n in range(50)]
        for handle in handles:
            hvd.synchronize(handle)
    hvd.stop_timeline()
    events = json.loads(path.read_text())
    return sum(event.get("name") == "CYCLE_START" for event in events)


def test_the_requests_of_a_step_travel_in_one_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may submit for longer than the usual interval.
    monkeypatch.setattr(worker, "_IDLE_SECONDS", 10.0)
    assert run_ranks(2, submits_small_tensors, tmp_path) == [10, 10]


def leaves_early(rank: int) -> str:
    hvd.init()
    if rank == 1:
        hvd.shutdown()
        return ""
    with pytest.raises(hvd.HorovodInternalError) as failure:
        hvd.allreduce(torch.ones(1))
    return str(failure.value)


def test_a_rank_that_shuts_down_ends_what_others_wait_for() -> None:
    said = run_ranks(2, leaves_early)
    assert "shut down by rank 1" in said[0]


def trains_elastically(rank: int, folder: Path) -> Any:
    hvd.init()
    os.environ["LOCKSTEP_CHECKPOINT_DIR"] = str(folder)
    torch.manual_seed(rank)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = hvd.elastic.ElasticSampler(range(24), shuffle=False)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0)
    resets: list[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state: Any) -> list[int]:
        while state.step < 4:
            if state.step == 1 and rank == 3:
                os._exit(9)
            hvd.allreduce(torch.ones(1), name="work")
            state.step += 1
            state.sampler.record_batch(state.step, 1)
            state.commit()
        return list(state.sampler)

    rest = train(state)
    return rest, hvd.size(), hvd.rank(), resets, vars(state)["step"], model.weight.item()


def test_ranks_that_are_left_go_on_from_the_last_commit(tmp_path: Path) -> None:
    outcomes = run_ranks_to_the_end(4, trains_elastically, tmp_path)
    assert outcomes[3].exit_code == 9
    for rank, outcome in enumerate(outcomes[:3]):
        assert outcome.error is None, outcome.error
        rest, size, own, resets, step, weight = outcome.value
        assert (size, own, resets, step) == (3, rank, [3], 4)
        # One step of four ranks was committed; three ranks divide what is left.
        assert rest == [*range(4, 24), 4][rank::3]
        assert weight == outcomes[0].value[5]
    kept = torch.load(tmp_path / "horovod-elastic.pt", weights_only=False)
    assert kept["objects"]["step"] == 4


def loses_two(rank: int) -> Any:
    hvd.init()
    state = hvd.elastic.ObjectState(step=0)

    @hvd.elastic.run
    def train(state: Any) -> None:
        while state.step < 4:
            if (state.step, rank) in ((1, 3), (2, 2)):
                os._exit(9)
            hvd.allreduce(torch.ones(1), name="work")
            state.step += 1
            state.commit()

    train(state)
    return hvd.size(), hvd.rank(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item()


def test_a_second_loss_is_survived_like_the_first() -> None:
    outcomes = run_ranks_to_the_end(4, loses_two)
    assert [each.exit_code for each in outcomes[2:]] == [9, 9]
    assert [each.error for each in outcomes[:2]] == [None, None]
    assert [each.value for each in outcomes[:2]] == [(2, 0, 2.0), (2, 1, 2.0)]


def grows_to_three() -> Any:
    """Trains until a third rank has joined, and one step with it."""
    state = hvd.elastic.ObjectState(step=0)
    end = time.monotonic() + 30

    @hvd.elastic.run
    def train(state: Any) -> float:
        while True:
            total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="work").item()
            state.step += 1
            if total == 3:
                return float(total)
            assert time.monotonic() < end
            state.commit()

    total = train(state)
    return hvd.rank(), hvd.size(), total, vars(state)["step"]


def joins(port: int) -> Any:
    os.environ["LOCKSTEP_HOROVOD_JOIN"] = f"127.0.0.1:{port}"
    os.environ["LOCKSTEP_HOST_ID"] = "host-1"
    return grows_to_three()


def test_a_rank_joins_a_running_elastic_world() -> None:
    with listening_socket() as listener:

        def launched(rank: int) -> Any:
            join_group(rank, 2, 1, "lockstep", listener, 20.0)
            grown = grows_to_three()
            dist.barrier()  # rank 0 has the store
            return grown

        bodies = [functools.partial(launched, rank) for rank in range(2)]
        outcomes = fork_all([*bodies, functools.partial(joins, listener.getsockname()[1])])
    assert [each.error for each in outcomes] == [None] * 3
    steps = {each.value[3] for each in outcomes}
    assert [each.value[:3] for each in outcomes] == [(rank, 3, 3.0) for rank in range(3)]
    assert len(steps) == 1 and steps.pop() > 1


def test_a_rank_that_joins_at_a_wrong_address_says_how_to_write_it() -> None:
    with pytest.raises(ValueError, match="LOCKSTEP_HOROVOD_JOIN=nowhere: set it to MASTER_ADDR"):
        Meeting.of_joiner("nowhere")


def resumes(rank: int, folder: Path) -> Any:
    hvd.init()
    os.environ["LOCKSTEP_CHECKPOINT_DIR"] = str(folder)
    model = torch.nn.Linear(1, 1)
    state = hvd.elastic.TorchState(model, step=0)

    @hvd.elastic.run
    def train(state: Any) -> Any:
        first = state.step
        while state.step < first + 2:
            state.step += 1
            state.commit()
        return first, model.weight.item()

    return train(state)


def test_a_new_attempt_begins_with_the_last_commit(tmp_path: Path) -> None:
    first = run_ranks(3, resumes, tmp_path)
    second = run_ranks(2, resumes, tmp_path)
    assert [step for step, _ in first] == [0, 0, 0]
    assert second == [(2, first[0][1])] * 2


def writes_timelines(rank: int, folder: Path) -> None:
    hvd.init()
    path = folder / f"timeline-{rank}.json"
    hvd.start_timeline(str(path), mark_cycles=True)
    with pytest.raises(ValueError, match="recorded already"):
        hvd.start_timeline(str(path))
    for _ in range(2):
        hvd.allreduce(torch.ones(3), name="weights")
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(3), name="weights")


def test_a_timeline_has_the_phases_of_each_name(tmp_path: Path) -> None:
    run_ranks(2, functools.partial(writes_timelines, folder=tmp_path))
    for rank in range(2):
        events = json.loads((tmp_path / f"timeline-{rank}.json").read_text())
        (row,) = [e["pid"] for e in events if e.get("args") == {"name": "allreduce.weights"}]
        own = [event for event in events if event["pid"] == row and event["ph"] != "M"]
        phases = [event.get("name") for event in own]
        assert phases == ["NEGOTIATE_ALLREDUCE", None, "ALLREDUCE", None] * 2
        assert [event["ts"] for event in own] == sorted(event["ts"] for event in own)
        assert any(event.get("name") == "CYCLE_START" for event in events)


ALONE = """
from lockstep.horovod import take_place
take_place()
import horovod, horovod.torch as hvd
from horovod.torch.elastic import ElasticSampler
from horovod.torch.compression import Compression
from horovod.common.exceptions import HorovodInternalError
import lockstep.horovod.torch, torch
assert hvd is lockstep.horovod.torch and HorovodInternalError is hvd.HorovodInternalError
hvd.init()
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
(3 * weight).backward()
optimizer.step()
print(hvd.rank(), hvd.size(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), weight.item())
"""


def test_a_script_for_horovod_runs_alone_without_a_launcher() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 1 1.0 -3.0\n"
