"""lockstep.log, progress, checkpoint and event: with an agent, without one, with a failing one."""

import re
import subprocess
from pathlib import Path

import pytest
from fake_agent import FakeAgent, run_program

import lockstep


def test_metrics_reach_the_agent_with_step_and_time(agent: FakeAgent) -> None:
    [report] = agent.reports_of("lockstep.log({'loss': 2.5, 'tokens': 3}, step=12)")
    assert report.pop("time_us") > 1_700_000_000_000_000
    assert report == {"kind": "metrics", "step": 12, "values": {"loss": 2.5, "tokens": 3.0}}


def test_what_json_cannot_write_travels_as_words(agent: FakeAgent) -> None:
    program = "lockstep.log({'a': float('nan'), 'b': float('inf'), 'c': -float('inf')}, step=1)"
    [report] = agent.reports_of(program)
    assert report["values"] == {"a": "NaN", "b": "Infinity", "c": "-Infinity"}


def test_numbers_arrive_with_their_bits_at_each_call(agent: FakeAgent) -> None:
    numbers = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 123456789.0, float("inf"), 2, -7]
    program = f"""
inf = float("inf")
for step in range(3):
    lockstep.log({{f"m{{i}}": value for i, value in enumerate({numbers})}}, step=step)
    lockstep._report._agent.finish()
"""
    reports = agent.reports_of(program)
    assert [report["step"] for report in reports] == [0, 1, 2]
    for report in reports:
        arrived = [float(value) for value in report["values"].values()]
        assert [value.hex() for value in arrived] == [float(each).hex() for each in numbers]
        assert all(isinstance(value, (float, str)) for value in report["values"].values())


def test_names_arrive_as_they_are_at_each_call(agent: FakeAgent) -> None:
    program = """
for step in range(3):
    names = ['a "quoted" \\\\ name', "Verlust/größe", "half " + chr(0xD800)]
    lockstep.log(dict.fromkeys(names, 1.0), step=step)
    lockstep._report._agent.finish()
"""
    for report in agent.reports_of(program):
        assert list(report["values"]) == ['a "quoted" \\ name', "Verlust/größe", "half ?"]


def test_metrics_of_all_kinds_keep_their_order_and_latest_step(agent: FakeAgent) -> None:
    program = """
import decimal
lockstep.event("begin", step=0)
for step in range(500):
    lockstep.log({"plain": 1.0}, step=step)
    lockstep.log({"other": decimal.Decimal(2), "flag": True})
    lockstep.log({"plain": 1})
    if step % 100 == 0:
        lockstep.progress(step, 500)
"""
    reports = agent.reports_of(program)[1:]
    assert [report["step"] for report in reports] == sorted(report["step"] for report in reports)
    assert len(reports) == 1505
    values = [report["values"] for report in reports if report["kind"] == "metrics"]
    assert values == [{"plain": 1}, {"other": 2, "flag": 1}, {"plain": 1}] * 500


def test_a_call_that_is_refused_leaves_nothing_of_its_line(agent: FakeAgent) -> None:
    program = """
for step in range(100):
    lockstep.log({"loss": 1.0}, step=step)
    for values, at in (({"loss": 1.0, "word": "x"}, 7), ({"loss": 1.0}, -1), ({"loss": []}, 7)):
        try:
            lockstep.log(values, step=at)
        except (TypeError, ValueError):
            continue
        raise AssertionError
"""
    assert [report["step"] for report in agent.reports_of(program)] == list(range(100))


def test_a_step_that_the_agent_cannot_read_stops_nothing(agent: FakeAgent) -> None:
    program = """
for step in (2**63 - 1, 2**63, 1):
    lockstep.log({"loss": 1.0}, step=step)
    lockstep._report._agent.finish()
"""
    assert [report["step"] for report in agent.reports_of(program)] == [2**63 - 1, 2**63, 1]


def test_a_burst_is_taken_without_a_wake_up_and_a_killed_child_loses_nothing(
    agent: FakeAgent,
) -> None:
    program = """
import os, signal
lockstep.event("begin", step=0)
for step in range(1, 1000):
    lockstep.log({"loss": 0.5}, step=step)
while len(lockstep._report._agent.lines):
    pass
lockstep._report._agent.finish()
if os.fork() == 0:
    lockstep.log({"child": 1.0}, step=1000)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
"""
    steps = [report["step"] for report in agent.reports_of(program, connections=2)]
    assert sorted(steps) == list(range(1001))


def test_progress_and_checkpoints_reach_the_agent(agent: FakeAgent, tmp_path: Path) -> None:
    program = f"lockstep.progress(3, 400); lockstep.checkpoint(100, {str(tmp_path)!r})"
    assert agent.reports_of(program) == [
        {"kind": "progress", "step": 3, "steps": 400},
        {"kind": "checkpoint", "step": 100, "path": str(tmp_path)},
    ]


def test_a_checkpoint_that_is_not_there_is_not_reported() -> None:
    said = run_program("lockstep.checkpoint(5, '/nonexistent')", None)
    assert said.stdout == ""
    assert said.stderr == (
        "lockstep: checkpoint of step 5: there is no /nonexistent, so it is not reported\n"
    )


def test_a_metric_whose_name_the_daemon_does_not_keep_is_left_out_and_told_once(
    agent: FakeAgent,
) -> None:
    program = "[lockstep.log({'': 1, 'a\\nb': 1, 'x' * 1000: 1, 'loss': 2}, 3) for _ in '12']"
    assert [each["values"] for each in agent.reports_of(program)] == [{"loss": 2}, {"loss": 2}]
    said = run_program(program, None).stderr.splitlines()
    assert len(said) == 3
    assert said[1] == (
        "lockstep: metric 'a\\nb' is left out: a name has 1 to 256 bytes, none of them control "
        "characters"
    )


def test_dir_shows_the_public_names_and_no_others() -> None:
    assert dir(lockstep) == sorted(lockstep.__all__)
    assert {"shard", "Training", "Sampler", "Checkpoints", "clip_grad_norm_"} <= set(dir(lockstep))
    assert all(hasattr(lockstep, name) for name in lockstep.__all__)


def test_an_event_reaches_the_agent_or_is_printed(agent: FakeAgent) -> None:
    [report] = agent.reports_of("lockstep.event('the data are read anew', step=7)")
    assert report.pop("time_us") > 1_700_000_000_000_000
    assert report == {"kind": "event", "step": 7, "text": "the data are read anew"}
    assert run_program("lockstep.event('gone', 7)", None).stdout == "step 7  gone\n"


def test_a_step_left_out_is_the_latest_one(agent: FakeAgent) -> None:
    program = "lockstep.log({}); lockstep.progress(7, 9); lockstep.log({'loss': 1.0})"
    assert [report["step"] for report in agent.reports_of(program)] == [0, 7, 7]


def test_lines_of_several_threads_do_not_mix(agent: FakeAgent) -> None:
    program = """
import threading
def work(thread):
    for step in range(200):
        lockstep.log({f"loss_{thread}": 1.0}, step=step)
threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    reports = agent.reports_of(program)
    assert len(reports) == 1600
    for thread in range(8):
        steps = [report["step"] for report in reports if f"loss_{thread}" in report["values"]]
        assert steps == list(range(200))


def test_a_forked_child_reports_on_a_connection_of_its_own(agent: FakeAgent) -> None:
    program = """
import os
lockstep.log({"parent": 1.0}, step=1)
if os.fork() == 0:
    lockstep.log({"child": 1.0}, step=2)
    os._exit(0)
os.wait()
lockstep.log({"parent": 1.0}, step=3)
"""
    steps = [report["step"] for report in agent.reports_of(program, connections=2)]
    assert steps in ([1, 3, 2], [2, 1, 3]), "either process may be connected first"


def test_without_an_agent_metrics_are_printed() -> None:
    ended = run_program(
        "lockstep.log({'loss': 2.1, 'norm': float('nan')}, step=3); lockstep.progress(3, 4)", None
    )
    assert ended.stdout == "step 3  loss 2.1  norm nan\n"
    assert ended.stderr == ""


def test_an_agent_that_is_gone_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    program = "for step in range(1000): lockstep.log({'loss': 1.0}, step=step)"
    lines = run_program(program, tmp_path / "nobody").stderr.splitlines()
    assert len(lines) == 2
    assert "training continues" in lines[0]
    assert lines[1] == f"lockstep: 1000 reports did not reach the agent at {tmp_path / 'nobody'}"


def unsent_reports(warning: str, agent: FakeAgent) -> int:
    """The first few may be on their way: the kernel has taken them."""
    match = re.fullmatch(
        rf"lockstep: (\d+) reports did not reach the agent at {agent.path}\n?", warning
    )
    assert match, warning
    return int(match[1])


def test_an_agent_that_does_not_read_stops_nothing(agent: FakeAgent) -> None:
    program = """
import time
started = time.monotonic()
for step in range(2000):
    lockstep.log({"loss": 1.0, "x" * 250: 1.0}, step=step)
lockstep.event("half way")
print(time.monotonic() - started)
"""
    ended = run_program(program, agent.path)
    # The event waits for a second. A busy machine also needs time.
    assert 0.9 < float(ended.stdout) < 20
    assert 1900 < unsent_reports(ended.stderr, agent) <= 2001


def test_more_metrics_than_the_queue_holds_wait_for_room(agent: FakeAgent) -> None:
    reports = agent.reports_of("for step in range(50_000): lockstep.log({'loss': 0.5}, step=step)")
    assert [report["step"] for report in reports] == list(range(50_000))


def test_metrics_that_no_one_takes_are_dropped_and_counted(agent: FakeAgent) -> None:
    program = "for step in range(40_000): lockstep.log({'loss': 0.5, 'x' * 99: 1.0}, step=step)"
    lines = run_program(program, agent.path).stderr.splitlines()
    assert "too many reports wait for it" in lines[0]
    assert 39_000 < unsent_reports(lines[1], agent) <= 40_000


def test_an_event_arrives_before_its_call_returns_and_after_the_metrics_before_it(
    agent: FakeAgent,
) -> None:
    program = """
import os
lockstep.log({"loss": 1.0}, step=1)
lockstep.event("written", step=2)
os._exit(0)
"""
    assert [report["step"] for report in agent.reports_of(program)] == [1, 2]


def test_a_call_of_log_costs_little_time(agent: FakeAgent) -> None:
    program = """
import time
from lockstep import _report
costs = []
for _ in range(20):
    _report._agent.finish()
    begun = time.thread_time()
    for step in range(200):
        lockstep.log({"loss": 0.5}, step=step)
    costs.append((time.thread_time() - begun) / 200)
lockstep.log({"cost": min(costs)}, step=1)
"""
    # 1 us on a quiet machine. A call that sends or wakes a thread takes over 10.
    assert agent.reports_of(program)[-1]["values"]["cost"] < 8e-6


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("lockstep.log({'loss': 'high'}, step=1)", "TypeError: metric 'loss' must be one number"),
        ("lockstep.log(1.5)", "TypeError: metrics have names, as in log({"),
        ("lockstep.log({'loss': 1.0}, step=-1)", "ValueError: step must not be negative, got -1"),
        ("lockstep.log({'loss': 1.0}, step=1.5)", "TypeError"),
        ("lockstep.progress(1, 0)", "ValueError: steps must be positive, got 0"),
        ("lockstep.event(7)", "TypeError: an event is a string, got 7"),
        ("lockstep.event('')", "ValueError: an event must say something"),
    ],
)
def test_a_wrong_call_is_refused(call: str, error: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run_program(call, None)
    assert error in refused.value.stderr


def test_a_tensor_of_one_element_is_a_number() -> None:
    ended = run_program("import torch\nlockstep.log({'loss': torch.tensor(0.5)}, step=1)", None)
    assert ended.stdout == "step 1  loss 0.5\n"


def test_a_tensor_with_a_graph_is_a_number_of_which_torch_does_not_warn() -> None:
    tensor = "torch.tensor(0.5, requires_grad=True)"
    ended = run_program(f"import torch\nlockstep.log({{'loss': {tensor}}}, step=1)", None)
    assert ended.stdout == "step 1  loss 0.5\n"
    assert ended.stderr == ""


def test_reporting_imports_no_torch() -> None:
    ended = run_program("import sys; print('torch' in sys.modules)", None)
    assert ended.stdout == "False\n"


def test_a_step_timer_reports_where_the_time_of_a_step_goes(agent: FakeAgent) -> None:
    program = """
import itertools, time
def slow_loader():
    for _ in range(2):
        time.sleep(0.05)
        yield 1
timer = lockstep.StepTimer()
for step, _ in enumerate(timer.batches(slow_loader())):
    time.sleep(0.02)
    with timer.waiting():
        time.sleep(0.1)
    timer.step(step)
"""
    reports = agent.reports_of(program)
    assert [report["step"] for report in reports] == [0, 1]
    for report in reports:
        times = report["values"]
        assert 0.05 <= times["data_seconds"] < times["step_seconds"]
        assert 0.02 <= times["compute_seconds"] < times["step_seconds"] - 0.15 + 0.001


STEPS = """
import os, torch
import torch.distributed as dist
{before}
dist.init_process_group("lockstep", init_method="file://{store}", rank=0, world_size=1)
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
for step in (101, 102, 103):
    optimizer.step()
    other.step()
    lockstep.log({{"loss": 1.0}}, step=step)
lockstep.log({{"last": 1.0}})
"""


def test_steps_of_an_optimizer_have_times_without_a_call(agent: FakeAgent, tmp_path: Path) -> None:
    reports = agent.reports_of(STEPS.format(before="", store=tmp_path / "store"))
    times = [report for report in reports if "compute_seconds" in report["values"]]
    assert [report["step"] for report in times] == [2, 3], "the first step has no beginning"
    for report in times:
        assert 0 <= report["values"]["compute_seconds"] <= report["values"]["step_seconds"] < 60
    assert reports[-1] == {**reports[-1], "step": 103, "values": {"last": 1.0}}


@pytest.mark.parametrize(
    "before", ["lockstep.StepTimer()", "os.environ['LOCKSTEP_STEP_TIMES'] = '0'"]
)
def test_a_step_timer_or_a_variable_replaces_the_times_of_optimizer_steps(
    agent: FakeAgent, tmp_path: Path, before: str
) -> None:
    reports = agent.reports_of(STEPS.format(before=before, store=tmp_path / "store"))
    assert all("compute_seconds" not in report["values"] for report in reports)


def test_flops_have_the_possible_ones_from_the_second_call_on(agent: FakeAgent) -> None:
    first, second, third = agent.reports_of(
        "import time\n"
        "lockstep.log_flops(2e12, step=1, peak=1e13)\n"
        "time.sleep(0.1)\n"
        "lockstep.log_flops(2e12, step=2, peak=1e13)\n"
        "lockstep.log_flops(2e12, step=3)"
    )
    assert first["values"] == {"flops": 2e12}
    assert second["values"]["flops_possible"] >= 1e12
    assert third["values"] == {"flops": 2e12}


def test_flops_that_are_no_amount_are_refused() -> None:
    with pytest.raises(ValueError, match="flops must be"):
        lockstep.log_flops(float("nan"))
    with pytest.raises(ValueError, match="peak must be"):
        lockstep.log_flops(1.0, peak=0.0)
