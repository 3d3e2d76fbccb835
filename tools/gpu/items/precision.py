"""Autocast, GradScaler, torch.compile and CUDA graphs around a sharded model."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn

import lockstep
from gpu import devices
from gpu.items.memory import Stack
from gpu.report import Seen, Skipped
from gpu.training import largest_difference, state_of

WIDTH, BLOCKS = 64, 3
ALIKE = 1e-5  # of 32-bit numbers


def stack(device: torch.device) -> Stack:
    torch.manual_seed(3)
    model = Stack(WIDTH, BLOCKS)
    model.to(device)
    return model


def inputs(device: torch.device) -> Tensor:
    return torch.linspace(-1, 1, 8 * WIDTH, device=device).view(8, WIDTH)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, kind: str) -> None:
    with torch.autocast(kind, dtype=torch.bfloat16):
        loss = (model(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def train_under_autocast(kind: str) -> Seen:
    """ddp as plain torch; with divided parameters a warning that names the better choices."""
    if kind == "simulated":
        raise Skipped("torch has no autocast for it")
    device = devices.use(kind)
    x = inputs(device)
    plain = stack(device)
    model = lockstep.shard(copy.deepcopy(plain), "ddp")
    for each in (plain, model):
        optimizer = sgd(each)
        for _ in range(3):
            step(each, optimizer, x, kind)
    difference = largest_difference(lockstep.state_dict(model), plain.state_dict())
    assert difference < ALIKE, f"ddp differs by {difference:.1e} from plain torch"
    for policy, warns in (("zero3", True), ("zero3+recompute", False)):
        lines: list[str] = []
        with devices.group(kind, "lone_rank", 8), devices.standard_error(lines):
            divided = lockstep.shard(stack(device), policy)
            step(divided, sgd(divided), x, kind)
            state_of(divided)
        said = any("autocast" in line and "bfloat16" in line for line in lines)
        assert said == warns, f"{policy} under autocast: {lines or 'no warning'}"
    return Seen(f"ddp differs by {difference:.1e} from plain torch; zero3 warns of copies")


def scale_gradients(kind: str) -> Seen:
    """GradScaler works with ddp, and skips a step that overflows; zero3 refuses it."""
    if kind == "simulated":
        raise Skipped("torch has no GradScaler for it")
    device = devices.use(kind)
    x = inputs(device)
    plain = stack(device)
    model = lockstep.shard(copy.deepcopy(plain), "ddp")
    for each in (plain, model):
        scaler, optimizer = torch.amp.GradScaler(kind, init_scale=8.0), sgd(each)
        for factor in (1.0, float("inf"), 1.0):
            scaler.scale((each(x) ** 2).mean() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert scaler.get_scale() == 4.0, f"the scale is {scaler.get_scale()} after an overflow"
    difference = largest_difference(lockstep.state_dict(model), plain.state_dict())
    assert difference < ALIKE, f"ddp differs by {difference:.1e} from plain torch"
    with devices.group(kind, "lone_rank", 8):
        divided = lockstep.shard(stack(device), "zero3")
        scaler, optimizer = torch.amp.GradScaler(kind), sgd(divided)
        scaler.scale((divided(x) ** 2).mean()).backward()
        expect_error("GradScaler", lambda: scaler.step(optimizer))
    return Seen(f"ddp differs by {difference:.1e} from plain torch; zero3 is refused")


def compile_a_model(kind: str) -> Seen:
    """torch.compile around a sharded model computes what the model computes."""
    device = devices.use(kind)
    backend = "inductor" if kind == "cuda" and importlib.util.find_spec("triton") else "aot_eager"
    worst = 0.0
    for policy in ("ddp", "zero3", "mics:2"):
        states = []
        for wrap in (lambda model: model, lambda model: torch.compile(model, backend=backend)):
            with devices.group(kind, "lone_rank", 8, 3):
                states.append(train_wrapped(device, policy, wrap))
        difference = largest_difference(*states)
        assert difference < ALIKE, f"{policy}: compiled differs by {difference:.1e}"
        worst = max(worst, difference)
    return Seen(f"3 policies differ by at most {worst:.1e} from the same uncompiled ({backend})")


def train_wrapped(
    device: torch.device, policy: str, wrap: Callable[[nn.Module], nn.Module]
) -> dict[str, Tensor]:
    model = lockstep.shard(stack(device), policy)
    run, optimizer, x = wrap(model), sgd(model), inputs(device)
    for _ in range(3):
        (run(x) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return state_of(model)


def refuse_capture(kind: str) -> Seen:
    """A CUDA graph around a step is refused with words, and the training goes on."""
    if kind != "cuda":
        raise Skipped("only a GPU has graphs")
    device = devices.use(kind)
    x = inputs(device)
    said = []
    for policy in ("ddp", "zero3"):
        with devices.group(kind, "lone_rank", 8, 3):
            model = lockstep.shard(stack(device), policy)
            optimizer = sgd(model)
            train_once(model, optimizer, x)
            said.append(expect_error("captur", lambda: capture(model, x)))  # noqa: B023
            train_once(model, optimizer, x)
            devices.synchronize(device)
    return Seen(f"refused: {said[0][:60]}")


def train_once(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    (model(x) ** 2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def capture(model: nn.Module, x: Tensor) -> None:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (model(x) ** 2).mean().backward()


def expect_error(word: str, act: Callable[[], object]) -> str:
    try:
        act()
    except (RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0]
        assert word in str(error), f"the error does not name {word}: {first}"
        return first
    raise AssertionError(f"no error that names {word}")
