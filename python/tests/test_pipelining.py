"""Pipelines of torch.distributed.pipelining compute what one process computes alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)

SIZE = 4
WIDTH, ROWS, MICROBATCHES = 12, 16, 8
CPU = torch.device("cpu")


def layers(count: int) -> list[nn.Module]:
    torch.manual_seed(5)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(count)]


def rows(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


def computed_alone(count: int) -> tuple[Tensor, list[Tensor]]:
    """The output of all layers, and the gradient of each layer's weight."""
    module = nn.Sequential(*layers(count))
    output = module(rows(1))
    loss_of(output, rows(2)).backward()
    return output.detach(), [layer[0].weight.grad for layer in module]


def run_pipeline(rank: int, schedule_type: Callable[..., Any], chunks: int) -> None:
    """Layer s of SIZE * chunks is stage s, and lies on rank s % SIZE."""
    count = SIZE * chunks
    mine = range(rank, count, SIZE)
    whole = layers(count)
    stages = [PipelineStage(whole[index], index, count, CPU) for index in mine]
    schedule = schedule_type(stages if chunks > 1 else stages[0], MICROBATCHES, loss_fn=loss_of)
    last = rank == SIZE - 1
    losses: list[Tensor] = []
    output = schedule.step(
        *([rows(1)] if rank == 0 else []),
        target=rows(2) if last else None,
        losses=losses if last else None,
    )
    expected_output, gradients = computed_alone(count)
    if last:
        torch.testing.assert_close(output, expected_output, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(
            torch.stack(losses).mean(), loss_of(expected_output, rows(2)), rtol=1e-10, atol=1e-12
        )
    for index in mine:
        torch.testing.assert_close(
            whole[index][0].weight.grad, gradients[index], rtol=1e-10, atol=1e-12
        )


def fill_and_drain(rank: int) -> None:
    run_pipeline(rank, ScheduleGPipe, 1)


def one_forward_one_backward(rank: int) -> None:
    run_pipeline(rank, Schedule1F1B, 1)


def interleaved_chunks(rank: int) -> None:
    run_pipeline(rank, ScheduleInterleaved1F1B, 2)


def a_pipeline_in_a_group_of_its_own(rank: int) -> None:
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    group, position = halves[rank // 2], rank % 2
    stage = PipelineStage(layers(2)[position], position, 2, CPU, group=group)
    output = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_of).step(
        *([rows(1)] if position == 0 else []), target=rows(2) if position == 1 else None
    )
    if position == 1:
        torch.testing.assert_close(output, computed_alone(2)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        fill_and_drain,
        one_forward_one_backward,
        interleaved_chunks,
        a_pipeline_in_a_group_of_its_own,
    ],
)
def test_it_equals_one_process(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)
