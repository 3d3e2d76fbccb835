"""Training on a device whose kernels are queued and whose memory the host cannot read."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simulated_device
import torch
from models import batch, net
from torch import nn

import lockstep
from lockstep import _capture, _metrics_queue, _report
from lockstep._report_lines import Lines

INDEX = 4
DEVICE = torch.device("simulated", INDEX)


@pytest.fixture(autouse=True)
def current_device() -> Iterator[None]:
    with simulated_device.device(INDEX):
        yield


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The reports that an agent would get."""

    class Agent:
        lines = Lines(0)  # closed: all metrics come to deliver()

        def deliver(self, report: dict[str, Any]) -> None:
            reports.append(report)

    reports: list[dict[str, Any]] = []
    monkeypatch.setattr(_report, "_agent", Agent())
    return reports


def environment_of_a_program() -> dict[str, str]:
    """With these modules, and without an agent."""
    environment = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_REPORT"}
    folders = [str(Path(lockstep.__file__).parents[1]), str(Path(__file__).parent)]
    return environment | {"PYTHONPATH": os.pathsep.join(folders)}


def value(number: float) -> torch.Tensor:
    return torch.full((), number, device=DEVICE)


def steps_of(reports: list[dict[str, Any]]) -> list[int]:
    return [each["step"] for each in reports]


def step_an_optimizer() -> None:
    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    torch.optim.SGD([parameter]).step()


def test_a_metric_of_a_device_is_sent_when_the_device_has_computed_it(
    sent: list[dict[str, Any]],
) -> None:
    loss = value(2.5)
    hold = simulated_device.Hold(INDEX)
    simulated_device.reset_host_waits(INDEX)
    lockstep.log({"loss": loss, "rate": 0.5}, step=1)
    lockstep.log({"tokens": 7}, step=2)  # stays behind it
    assert sent == []
    assert simulated_device.host_waits(INDEX).all() == 0
    hold.release()
    simulated_device.synchronize(INDEX)
    step_an_optimizer()
    assert [each["values"] for each in sent] == [{"loss": 2.5, "rate": 0.5}, {"tokens": 7.0}]
    assert steps_of(sent) == [1, 2]
    assert simulated_device.host_waits(INDEX).all() == 0
    lockstep.log({"tokens": 8}, step=3)
    assert steps_of(sent) == [1, 2, 3]


def test_a_later_change_of_the_tensor_does_not_change_the_metric(
    sent: list[dict[str, Any]],
) -> None:
    loss = nn.Parameter(value(1.0))
    lockstep.log({"loss": loss}, step=1)
    with torch.no_grad():
        loss.fill_(9)
    simulated_device.synchronize(INDEX)
    _report._metrics.finish()
    assert sent[0]["values"] == {"loss": 1.0}


def test_the_end_of_the_program_waits_for_the_device() -> None:
    program = """
import atexit
import simulated_device, torch, lockstep
loss = torch.full((), 2.5, device="simulated")
hold = simulated_device.Hold(0)
lockstep.log({"loss": loss}, step=5)
atexit.register(hold.release)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment_of_a_program(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "step 5  loss 2.5\n"
    assert ended.stderr == ""


def test_metrics_of_a_device_that_does_not_end_are_dropped_with_a_warning(
    sent: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_metrics_queue, "_QUEUED_MAX", 2)
    monkeypatch.setattr(_metrics_queue, "_WAIT_MAX", 0.01)
    monkeypatch.setattr(_metrics_queue, "_EXIT_WAIT_MAX", 0.01)
    hold = simulated_device.Hold(INDEX)
    for step in range(3):
        lockstep.log({"loss": value(1.0)}, step=step)
    _report._metrics.finish()
    hold.release()
    assert sent == []
    assert capfd.readouterr().err.splitlines() == [
        "lockstep: the metrics of step 0 are lost: 2 later ones wait for the device, too",
        "lockstep: the metrics of step 1 are lost: the device needs more than 0.01 s",
        "lockstep: the metrics of step 2 are lost: the device needs more than 0.01 s",
    ]


def test_an_error_of_the_device_is_not_called_a_wrong_metric() -> None:
    with simulated_device.device(5):
        loss = torch.ones((), device="simulated")
        simulated_device.fail(5, "device-side assert triggered")
        simulated_device.current_stream().record_event().synchronize()
        with pytest.raises(RuntimeError, match="device-side assert triggered"):
            lockstep.log({"loss": loss}, step=1)


def test_a_tensor_is_not_copied_while_a_cuda_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_capture, "is_capturing", lambda device: True)
    with pytest.raises(RuntimeError, match=r"log the tensor after graph.replay\(\)"):
        lockstep.log({"loss": value(1.0)}, step=1)


def test_a_tensor_of_several_elements_is_refused_without_reading_it() -> None:
    simulated_device.reset_host_waits(INDEX)
    with pytest.raises(TypeError, match=r"'loss' must be one number, got a tensor of shape \[3\]"):
        lockstep.log({"loss": torch.ones(3, device=DEVICE)}, step=1)
    assert simulated_device.host_waits(INDEX).all() == 0


class Training:
    """A run as in a user's script, of one rank."""

    def __init__(self, folder: Path, device: torch.device, **options: bool) -> None:
        self.device = device
        self.model = lockstep.shard(net(device), "zero1")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, **options)
        self.checkpoints = lockstep.Checkpoints(folder, self.model, self.optimizer)
        self.done = self.checkpoints.resume()

    def run_to(self, step: int) -> None:
        for number in range(self.done, step):
            x, y = (each.to(self.device) for each in batch(number, 0))
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.done = step

    def save(self) -> None:
        self.checkpoints.save(self.done)
        self.checkpoints.finish()

    def values(self) -> dict[str, torch.Tensor]:
        return lockstep.state_dict(self.model)

    def step_counts(self) -> list[torch.Tensor]:
        return [state["step"] for state in self.optimizer.state.values()]


@pytest.mark.parametrize(
    ("device", "kind"),
    [(DEVICE, "fused"), (DEVICE, "capturable"), (torch.device("cpu"), "fused")],
)
def test_kernels_find_the_number_of_steps_on_their_device_after_resume(
    tmp_path: Path, device: torch.device, kind: str
) -> None:
    unbroken = Training(tmp_path / "unbroken", device, **{kind: True})
    unbroken.run_to(4)
    before = Training(tmp_path, device, **{kind: True})
    before.run_to(2)
    before.save()
    after = Training(tmp_path, device, **{kind: True})
    assert after.done == 2
    for count, expected in zip(after.step_counts(), before.step_counts(), strict=True):
        assert (count.device, count.dtype) == (expected.device, expected.dtype)
        assert count.item() == 2
    after.run_to(4)
    for name, tensor in unbroken.values().items():
        assert torch.equal(after.values()[name], tensor), name


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"capturable": True}])
def test_a_save_reads_the_number_of_steps_once(tmp_path: Path, options: dict[str, bool]) -> None:
    run = Training(tmp_path, DEVICE, **options)
    run.run_to(1)
    simulated_device.reset_host_waits(INDEX)
    run.save()
    assert simulated_device.host_waits(INDEX).reads == (1 if options else 0)


def test_a_model_is_refused_while_a_cuda_graph_is_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Training(tmp_path, DEVICE)
    x, _ = (each.to(DEVICE) for each in batch(0, 0))
    run.model(x).sum().backward()
    monkeypatch.setattr(_capture, "is_capturing", lambda device: device == DEVICE)
    for what in (lambda: run.model(x), lambda: run.model.layers[0](x), run.optimizer.step):
        with pytest.raises(RuntimeError, match=r"outside of torch\.cuda\.graph"):
            what()
    monkeypatch.undo()
    run.optimizer.step()


def test_only_a_stream_of_cuda_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert _capture.is_capturing(torch.device("cuda", 0))
    assert not _capture.is_capturing(DEVICE)
    assert not _capture.is_capturing(torch.device("cpu"))


def test_a_model_that_is_not_on_the_current_device_is_refused() -> None:
    model = net("simulated:6")
    with pytest.raises(ValueError, match=r"call torch.simulated.set_device\(LOCAL_RANK\)"):
        lockstep.shard(model)
    with simulated_device.device(6):
        lockstep.shard(model)
    with torch.device("meta"):
        model = type(model)()
    with pytest.raises(ValueError, match="the model is on simulated:6, and the current device is"):
        lockstep.shard(model, device="simulated:6", init=lambda module: None)


def test_a_model_on_several_devices_is_refused() -> None:
    model = net(DEVICE)
    model.head.to("simulated:6")
    with pytest.raises(ValueError, match=r"head.weight is on simulated:6, others on simulated:4"):
        lockstep.shard(model)
