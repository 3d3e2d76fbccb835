"""The part that a rank adds to a trace of several ranks."""

import gzip
import json
from typing import Any

from lockstep._trace import packed, rank_events

BASE_NS = 1_790_857_026_000_000_000


def complete(name: str, begin: float, end: float, **more: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 500, "tid": 501, "ts": begin}
    return {**event, "dur": end - begin, **more}


def name_of(thread: int, name: str, pid: int = 500) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}}


def converted(*events: dict[str, Any]) -> list[dict[str, Any]]:
    trace = {"baseTimeNanoseconds": BASE_NS, "traceEvents": list(events)}
    return rank_events(trace, 500, 3, "rank 3 (node 1, device 1)", BASE_NS // 1000 + 1_000_000)


def shown(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["name"] == name]


def test_a_rank_is_a_process_on_the_clock_of_all() -> None:
    events = converted(name_of(501, "python"), complete("aten::mm", 1_000_007.5, 1_000_009.5))
    (mm,) = shown(events, "aten::mm")
    assert (mm["pid"], mm["tid"], mm["ts"], mm["dur"]) == (3, 501, 7.5, 2.0)
    assert mm["cat"] == "cpu_op"
    (process,) = shown(events, "process_name")
    assert process["pid"] == 3 and process["args"] == {"name": "rank 3 (node 1, device 1)"}
    (thread,) = shown(events, "thread_name")
    assert thread["tid"] == 501 and thread["args"] == {"name": "python"}


def test_calls_that_overlap_get_rows_of_their_own() -> None:
    first, second, third = (
        complete("lockstep:all_reduce", *times) for times in ((10, 30), (20, 40), (35, 50))
    )
    events = converted(complete("aten::mm", 15, 60), first, second, third)
    one, two, again = (event["tid"] for event in shown(events, "lockstep:all_reduce"))
    assert len({one, two, 501}) == 3 and again == one
    rows = {event["tid"]: event["args"]["name"] for event in shown(events, "thread_name")}
    assert rows == {one: "lockstep calls 1", two: "lockstep calls 2"}


def test_streams_of_a_gpu_are_rows_of_their_rank() -> None:
    kernel = complete("gemm", 12, 14, pid=0, tid=501)  # a stream with the number of a thread
    events = converted(name_of(501, "python"), name_of(501, "stream 501", pid=0), kernel)
    (gemm,) = shown(events, "gemm")
    assert gemm["pid"] == 3 and gemm["tid"] != 501
    rows = {event["tid"]: event["args"]["name"] for event in shown(events, "thread_name")}
    assert rows == {501: "python", gemm["tid"]: "stream 501"}


def test_arrows_of_two_ranks_differ_and_the_marks_of_the_profiler_are_left_out() -> None:
    arrow = {"ph": "s", "id": 7, "pid": 500, "tid": 501, "ts": 1, "name": "fwdbwd"}
    span = complete("PyTorch Profiler (0)", 1, 3, pid="Spans", tid="PyTorch Profiler")
    events = converted(arrow, span)
    (moved,) = shown(events, "fwdbwd")
    assert moved["id"] == 7 * 2**20 + 3
    assert not shown(events, "PyTorch Profiler (0)")


def test_packed_events_are_the_inside_of_a_list() -> None:
    events = converted(complete("aten::mm", 1, 2))
    assert json.loads(b"[" + gzip.decompress(packed(events)) + b"]") == events
