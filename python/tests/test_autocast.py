"""Autocast's copies of parameters that the policy divides."""

from collections.abc import Callable

import pytest
import torch
from ranks import run_ranks
from torch import Tensor, nn

import lockstep

WIDTH, BLOCKS = 256, 8
COPY = 2 * WIDTH * WIDTH  # bytes of a block's parameters in bfloat16


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def copies_left(act: Callable[[], Tensor]) -> int:
    """The memory that is allocated and not released by it, in copies of a block's parameters."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
        result = act()
    assert result.shape == (2, WIDTH)
    bytes_left: int = sum(each.self_cpu_memory_usage for each in profile.events())
    return round(bytes_left / COPY)


def forward(rank: int, policy: str, dtype: torch.dtype, gradients: bool) -> tuple[int, bool]:
    """The copies that a forward leaves behind, and whether autocast's cache is as before it."""
    model = lockstep.shard(Net().to(dtype), policy)
    x = torch.ones(2, WIDTH, dtype=dtype)
    model(x).sum().backward()  # the buffers for gathers are there now
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(gradients):
        return copies_left(lambda: model(x)), torch.is_autocast_cache_enabled()


@pytest.mark.parametrize(
    ("policy", "dtype", "gradients", "copies"),
    [
        # The first block's input needs no gradient, so its copy is not needed.
        ("zero3", torch.float32, True, BLOCKS - 1),
        ("zero3+recompute", torch.float32, True, 0),
        ("zero3", torch.bfloat16, True, 0),
        ("zero3", torch.float32, False, 0),
    ],
)
def test_copies_of_divided_parameters_are_left_if_they_must_and_there_is_a_warning(
    policy: str,
    dtype: torch.dtype,
    gradients: bool,
    copies: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_ranks(2, forward, policy, dtype, gradients) == [(copies, True)] * 2
    warned = capfd.readouterr().err.count("add +recompute to the policy")
    assert warned == (copies > 0)


def fail_in_a_block(rank: int) -> bool:
    model = lockstep.shard(Net(), "zero3")
    with pytest.raises(RuntimeError), torch.autocast("cpu", torch.bfloat16):
        model.layers[0](torch.ones(2, WIDTH + 1))
    return bool(torch.is_autocast_cache_enabled())


def test_autocast_has_its_cache_again_after_an_error_in_a_block() -> None:
    assert run_ranks(2, fail_in_a_block) == [True, True]
