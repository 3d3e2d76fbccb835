"""torch.compile of sharded models: equal results, from one compiled graph for all blocks."""

from collections.abc import Callable
from typing import Any

import torch
from models import IN, OUT, WIDTH, batch
from ranks import run_ranks
from torch import Tensor, nn

import lockstep

RANKS = 2
BLOCKS = 10  # more than the graphs that torch makes for one function
STEPS = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(IN, WIDTH, dtype=torch.float64)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH, dtype=torch.float64), nn.Tanh())
            for _ in range(BLOCKS)
        )
        self.head = nn.Linear(WIDTH, OUT, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


class Compiler:
    """torch's backend aot_eager, which also counts."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, module: Any, inputs: list[Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        graph = torch._dynamo.lookup_backend("aot_eager")(module, inputs)

        def run(*arguments: Any) -> Any:
            self.runs += 1
            return graph(*arguments)

        return run


def train(rank: int, policy: str, compiler: Compiler | None, what: str) -> dict[str, Tensor]:
    model = Net()
    blocks = list(model.layers)
    if compiler is not None and what == "blocks":
        for number, block in enumerate(blocks):
            model.layers[number] = torch.compile(block, backend=compiler, fullgraph=True)
    lockstep.shard(model, policy, blocks=list(model.layers))
    whole = compiler is not None and what == "model"
    call = torch.compile(model, backend=compiler) if whole else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = batch(step, 0, rank, RANKS)
        nn.functional.mse_loss(call(x), y).backward()
        lockstep.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    return {name.replace("._orig_mod", ""): one for name, one in lockstep.state_dict(model).items()}


def compare(rank: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The number of compiled graphs, and how often they ran."""
    counts = {}
    for policy in ("ddp", "mics:2", "mics:2+recompute"):
        plain = train(rank, policy, None, "")
        for what in ("model", "blocks"):
            torch._dynamo.reset()
            compiler = Compiler()
            compiled = train(rank, policy, compiler, what)
            assert list(compiled) == list(plain)
            for name, tensor in plain.items():
                assert torch.equal(compiled[name], tensor), (policy, what, name)
            counts[policy, what] = compiler.graphs, compiler.runs
    return counts


def test_a_compiled_training_has_the_results_of_a_plain_one() -> None:
    runs = STEPS * BLOCKS
    assert run_ranks(RANKS, compare)[0] == {
        ("ddp", "model"): (1, runs),
        ("ddp", "blocks"): (1, runs),
        ("mics:2", "model"): (1, runs),
        ("mics:2", "blocks"): (1, runs),
        ("mics:2+recompute", "model"): (1, runs),
        ("mics:2+recompute", "blocks"): (1, 2 * runs),
    }
