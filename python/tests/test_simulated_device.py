"""The simulated device, as tests in Python use it."""

import pytest
import simulated_device
import torch
from torch import nn

DEVICE = torch.device("simulated:1")


def test_kernels_are_queued_and_reads_of_the_host_are_counted() -> None:
    ones = torch.ones(4, device=DEVICE)
    simulated_device.reset_host_waits(1)
    hold = simulated_device.Hold(1)
    total = (ones + 1).sum()
    event = torch.accelerator.current_stream(DEVICE).record_event()
    assert not event.query()
    assert simulated_device.host_waits(1).all() == 0
    hold.release()
    assert total.item() == 8
    assert event.query()
    assert simulated_device.host_waits(1).reads == 1
    assert simulated_device.host_waits(1).all() == 1


def test_a_copy_into_pinned_memory_does_not_wait() -> None:
    value = torch.full((), 3.5, device=DEVICE)
    pinned = torch.zeros((), pin_memory=True)
    hold = simulated_device.Hold(1)
    simulated_device.reset_host_waits(1)
    pinned.copy_(value, non_blocking=True)
    event = torch.accelerator.current_stream(DEVICE).record_event()
    assert simulated_device.host_waits(1).all() == 0
    hold.release()
    event.synchronize()
    assert pinned.item() == 3.5


def test_a_failed_kernel_is_an_error_of_the_next_copy_to_the_host() -> None:
    value = torch.ones((), device="simulated:2")
    simulated_device.fail(2, "device-side assert triggered")
    torch.accelerator.current_stream(torch.device("simulated:2")).record_event().synchronize()
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        torch.zeros((), pin_memory=True).copy_(value, non_blocking=True)


def train(device: str, steps: int, **options: bool) -> list[torch.Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
    x = torch.linspace(0, 1, 12).reshape(4, 3).to(device)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
    return [each.detach().cpu() for each in model.parameters()]


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"capturable": True}])
def test_a_model_trains_as_on_the_cpu(options: dict[str, bool]) -> None:
    for one, other in zip(train("simulated:3", 3, **options), train("cpu", 3), strict=True):
        torch.testing.assert_close(one, other)
