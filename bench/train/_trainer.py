"""A small model and its training step, for benchmarks: little arithmetic for many gradients."""

import torch
from torch import nn

FEATURES, BATCH = 256, 8


def make_model(width: int) -> nn.Module:
    """Equal on all ranks."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 1),
    )


class Trainer:
    """step() is forward, backward and SGD; with its all-reduces if the model is one of DDP."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        self.inputs = torch.randn(BATCH, FEATURES)
        self.targets = torch.randn(BATCH, 1)

    def loss(self) -> float:
        """The loss of its batch with the present parameters."""
        with torch.no_grad():
            return nn.functional.mse_loss(self.model(self.inputs), self.targets).item()

    def step(self) -> None:
        loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
