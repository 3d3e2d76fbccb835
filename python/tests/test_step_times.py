"""Times of data and FLOPs of steps, which ranks report without a call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fake_agent import FakeAgent
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from lockstep import _compiled

core = _compiled.communication()


def counted(step: Callable[[], object]) -> float:
    assert core.begin_flop_count()
    try:
        step()
    finally:
        flops = core.end_flop_count()
    assert flops is not None
    return float(flops)


def counted_by_torch(step: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops())


def mlp() -> Tensor:
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3, bias=False))
    return model(torch.ones(2, 4, 5)).sum()


def convolutions() -> Tensor:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 4, (3, 1), dilation=2, padding="same"),
        nn.ConvTranspose2d(4, 6, 3, stride=2),
    )
    return model(torch.ones(2, 3, 17, 16)).sum() + nn.Conv1d(3, 4, 5)(torch.ones(2, 3, 9)).sum()


def attention() -> Tensor:
    query = torch.ones(2, 3, 5, 8, requires_grad=True)
    key, value = (torch.ones(2, 3, 7, 8, requires_grad=True) for _ in range(2))
    return functional.scaled_dot_product_attention(query, key, value).sum()


def transformer() -> Tensor:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return layer(torch.ones(2, 6, 16)).sum()


def products() -> Tensor:
    left, right = (torch.ones(*shape, requires_grad=True) for shape in ((2, 3, 4), (2, 4, 5)))
    added = torch.baddbmm(torch.zeros(2, 3, 5), left, right)
    return added.sum() + torch.einsum("bij,bjk->ik", left, right).sum() + (left @ right[0]).sum()


def second_derivative() -> Tensor:
    """Without modules, whose hooks of torch's counter refuse it."""
    x, first, last = (torch.ones(*shape, requires_grad=True) for shape in ((3, 5), (5, 7), (7, 1)))
    [slope] = torch.autograd.grad(((x @ first).tanh() @ last).sum(), x, create_graph=True)
    return slope.square().sum()


@pytest.mark.parametrize(
    "loss", [mlp, convolutions, attention, transformer, products, second_derivative]
)
def test_the_count_is_that_of_torch(loss: Callable[[], Tensor]) -> None:
    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            loss().backward()

    flops = counted(step)
    assert flops == counted_by_torch(step) > 0


def test_fused_attention_counts_as_its_products() -> None:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        fused = counted(lambda: attention().backward())
    with sdpa_kernel(SDPBackend.MATH):
        assert fused == counted(lambda: attention().backward())


def test_a_convolution_with_groups_has_no_operations_between_them() -> None:
    x = torch.ones(2, 6, 9, requires_grad=True)
    flops = counted(lambda: nn.Conv1d(6, 4, 3, groups=2)(x).sum().backward())
    assert flops == 3 * (2 * 7 * 2) * (4 * 3 * 3)


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_what_checkpointing_computes_again_is_not_counted(is_reentrant: bool) -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5))
    x = torch.ones(2, 5, requires_grad=True)

    def again() -> None:
        checkpoint(model, x, use_reentrant=is_reentrant).sum().backward()

    assert counted(again) == counted(lambda: model(x).sum().backward())
    assert counted_by_torch(again) > counted(again)


def test_shapes_of_wrappers_do_not_count_twice() -> None:
    weight, rows = torch.ones(5, 7), torch.ones(4, 3, 5)
    assert counted(lambda: torch.func.vmap(lambda x: x @ weight)(rows)) == 2 * 12 * 5 * 7


STEPS = """
import os, time, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 15
    def __getitem__(self, index):
        time.sleep(0.02)
        return next(iter(DataLoader([torch.ones(3)] * 2, batch_size=2)))

{before}
dist.init_process_group("lockstep", init_method="file://{store}", rank=0, world_size=1)
model = torch.nn.Linear(3, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(DataLoader(Rows(), batch_size=1, num_workers={workers})):
    model(batch[0]).sum().backward()
    optimizer.step()
    {after}
"""
FLOPS = 2 * (2 * 2 * 3 * 5)  # the input needs no gradient


def test_a_step_has_the_time_of_its_data_and_from_the_tenth_on_its_flops(
    agent: FakeAgent, tmp_path: Path
) -> None:
    program = STEPS.format(
        store=tmp_path / "store", workers=0, before="lockstep.set_peak_flops(1e9)", after=""
    )
    steps = [report["values"] for report in agent.reports_of(program)]
    assert len(steps) == 14, "the first step has no beginning"
    for values in steps:
        assert 0.02 <= values["data_seconds"] <= values["step_seconds"]
        times = values["data_seconds"] + values["compute_seconds"]
        assert times == pytest.approx(values["step_seconds"])
        if "flops" in values:
            assert values["flops_possible"] == pytest.approx(1e9 * values["step_seconds"])
    assert [values.get("flops") for values in steps] == [None] * 8 + [FLOPS] * 6


def test_a_step_timer_without_batches_has_the_time_of_the_data_loader(
    agent: FakeAgent, tmp_path: Path
) -> None:
    program = STEPS.format(
        store=tmp_path / "store",
        workers=0,
        before="timer = lockstep.StepTimer()",
        after="timer.step(step)",
    )
    steps = [report["values"] for report in agent.reports_of(program)]
    steps = [values for values in steps if "step_seconds" in values]
    assert len(steps) == 15
    for values in steps[1:]:
        assert 0.02 <= values["data_seconds"] <= values["step_seconds"]
        times = values["data_seconds"] + values["compute_seconds"]
        assert times == pytest.approx(values["step_seconds"])
    assert "data_seconds" not in steps[0], "the first step of the optimizer has no beginning"


def test_flops_that_the_program_reports_are_the_only_ones(agent: FakeAgent, tmp_path: Path) -> None:
    program = STEPS.format(
        store=tmp_path / "store",
        workers=1,
        before="lockstep.StepTimer()",
        after="lockstep.log_flops(7.0, step)",
    )
    reports = [report["values"] for report in agent.reports_of(program)]
    assert reports == [{"flops": 7.0}] * 15
