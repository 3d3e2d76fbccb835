"""A model with all features that make sharding hard, and its training by one process alone."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

IN, WIDTH, OUT = 5, 7, 3
BATCH = 12  # rows of a micro-step, over all ranks


def wave(*shape: int, phase: float) -> Tensor:
    """Pseudo-random numbers that are the same everywhere."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + phase).view(shape)


@dataclasses.dataclass
class Carried:
    """The value passed from block to block: the engine must find the tensors in it."""

    hidden: Tensor
    residual: tuple[Tensor, ...]


class Layer(nn.Module):
    """Odd sizes, so that nothing divides; one unused parameter, one that needs no gradient."""

    def __init__(self, shared: nn.Parameter) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.scale = nn.Parameter(torch.empty(3, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.empty(WIDTH, dtype=torch.float64), requires_grad=False)
        self.unused = nn.Parameter(torch.empty(3, dtype=torch.float64))
        self.shared = shared
        self.register_buffer("runs", torch.zeros(1, dtype=torch.int64))

    def forward(self, carried: Carried) -> Carried:
        hidden = torch.tanh(self.linear(carried.hidden) + self.frozen)
        hidden = hidden * (1 + self.scale.sum() * self.shared)
        return Carried(hidden + carried.residual[0], (carried.hidden,))


class Net(nn.Module):
    """Blocks in a ModuleList, a parameter that they share, and a head that is tied to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(IN, WIDTH, bias=False, dtype=torch.float64)
        shared = nn.Parameter(torch.empty(WIDTH, dtype=torch.float64))
        self.layers = nn.ModuleList(Layer(shared) for _ in range(3))
        self.head = nn.Linear(WIDTH, OUT, dtype=torch.float64)
        self.back = nn.Linear(IN, WIDTH, bias=False, dtype=torch.float64)
        self.back.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        carried = Carried(hidden, (hidden + self.back(x),))
        for layer in self.layers:
            carried = layer(carried)
        return self.head(carried.hidden)


def net(device: torch.device | str | None = None) -> Net:
    """Made on the device, or torch's default one: to() a device of tests unties parameters."""
    with torch.device(device) if device is not None else contextlib.nullcontext():
        model = Net()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(0.5 * wave(*parameter.shape, phase=0.1 * number))
    return model


def batch(step: int, part: int, rank: int = 0, ranks: int = 1) -> tuple[Tensor, Tensor]:
    """A rank's rows of a micro-step."""
    phase = step + 0.3 * part
    rows = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    return wave(BATCH, IN, phase=phase)[rows], wave(BATCH, OUT, phase=phase + 0.5)[rows]


def loss_of(model: nn.Module, step: int, part: int, rank: int = 0, ranks: int = 1) -> Tensor:
    device = next(model.parameters()).device
    x, y = (each.to(device) for each in batch(step, part, rank, ranks))
    return nn.functional.mse_loss(model(x), y)


MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def train_alone(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: Iterable[int],
    parts: int = 1,
    clip: float | None = None,
) -> list[float]:
    """Plain torch on the whole batch; the norms of the gradients."""
    norms = []
    for step in steps:
        optimizer.zero_grad()
        for part in range(parts):
            (loss_of(model, step, part) / parts).backward()
        trainable = [each for each in model.parameters() if each.requires_grad]
        for parameter in trainable:
            if parameter.grad is None:  # an unused parameter has a gradient of zero
                parameter.grad = torch.zeros_like(parameter)
        norm = torch.cat([each.grad.flatten() for each in trainable]).norm().item()
        norms.append(norm)
        if clip is not None and norm > clip:
            for parameter in trainable:
                parameter.grad.mul_(clip / norm)
        optimizer.step()
    return norms
