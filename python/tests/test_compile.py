"""torch.compile of sharded models: equal results, from one compiled graph for all blocks."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import BATCH, IN, OUT, WIDTH, batch
from ranks import run_ranks, run_ranks_to_the_end
from torch import Tensor, nn

import lockstep
from lockstep._capture import refuse_compiled_graphs

RANKS = 2
BLOCKS = 10  # more than the graphs that torch makes for one function
STEPS = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(IN, WIDTH, dtype=torch.float64)
        self.layers = nn.ModuleList(Block() for _ in range(BLOCKS))
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


def compile_before(model: Net, way: str, compiler: Any) -> None:
    """As a program does before lockstep.shard."""
    for number, block in enumerate(model.layers):
        if way == "blocks":
            model.layers[number] = torch.compile(block, backend=compiler, fullgraph=True)
        if way == "block.compile()":
            block.compile(backend=compiler, fullgraph=True)


def compile_after(model: Net, way: str, compiler: Any) -> Callable[[Tensor], Tensor]:
    """The function that a program then calls."""
    if way == "model":
        compiled: Callable[[Tensor], Tensor] = torch.compile(model, backend=compiler)
        return compiled
    if way == "model.compile()":
        model.compile(backend=compiler)
    if way == "reduce-overhead":
        reduced: Callable[[Tensor], Tensor] = torch.compile(model, mode="reduce-overhead")
        return reduced
    return model


def train(
    rank: int,
    policy: str,
    way: str = "",
    compiler: Any = None,
    rows: Callable[[int], int] = lambda step: BATCH,
) -> dict[str, Tensor]:
    """rows: how many of a step's rows a rank uses."""
    torch._dynamo.reset()
    model = Net()
    compile_before(model, way, compiler)
    lockstep.shard(model, policy, blocks=list(model.layers))
    call = compile_after(model, way, compiler)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = (each[: rows(step)] for each in batch(step, 0, rank, RANKS))
        nn.functional.mse_loss(call(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name.replace("._orig_mod", ""): one for name, one in lockstep.state_dict(model).items()}


def train_alone() -> dict[str, Tensor]:
    """Plain torch on the batches of all ranks."""
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        x, y = batch(step, 0)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return dict(model.state_dict())


def expect_equal(ours: dict[str, Tensor], theirs: dict[str, Tensor], what: object) -> None:
    """On rank 0, which alone has the state."""
    for name, tensor in ours.items():
        torch.testing.assert_close(
            tensor,
            theirs[name],
            rtol=1e-10,
            atol=1e-10,
            msg=lambda text, n=name: f"{what} {n}: {text}",
        )


def compare(rank: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The number of compiled graphs, and how often they ran."""
    counts = {}
    alone = train_alone()
    for policy in ("ddp", "mics:2", "zero3+recompute"):
        for way in ("model", "model.compile()", "blocks", "block.compile()"):
            compiler = Compiler()
            trained = train(rank, policy, way, compiler)
            assert len(trained) == (len(alone) if rank == 0 else 0)
            expect_equal(trained, alone, (policy, way))
            counts[policy, way] = compiler.graphs, compiler.runs
    return counts


def test_a_compiled_training_has_the_results_of_a_plain_one() -> None:
    runs = STEPS * BLOCKS
    # Where the program compiles blocks, recomputation runs their graphs; else it runs their code.
    for (policy, way), counted in run_ranks(RANKS, compare)[0].items():
        again = 2 if policy == "zero3+recompute" and way in ("blocks", "block.compile()") else 1
        assert counted == (1, again * runs), (policy, way)


def compare_other_sizes(rank: int) -> int:
    """A rank's batch has another size in each step, and another one than the other rank's."""
    plain = train(rank, "zero3", rows=lambda step: 2 + rank + step)
    compiler = Compiler()
    compiled = train(rank, "zero3", "model", compiler, rows=lambda step: 2 + rank + step)
    expect_equal(compiled, plain, "sizes")
    return compiler.graphs


def test_graphs_that_are_compiled_again_for_other_sizes_give_the_same_results() -> None:
    # The second graph is for every size.
    assert run_ranks(RANKS, compare_other_sizes) == [2, 2]


def compare_inductor(rank: int) -> None:
    alone = train_alone()
    expect_equal(train(rank, "mics:2", "model", "inductor"), alone, "inductor")
    # Torch makes CUDA graphs only on a GPU; docs/guide/train.md has the limit there.
    expect_equal(train(rank, "mics:2", "reduce-overhead"), alone, "reduce-overhead")


def test_graphs_of_inductor_give_the_same_results() -> None:
    run_ranks(RANKS, compare_inductor)


class Branching(Net):
    def forward(self, x: Tensor, skipped: int | None = None) -> Tensor:
        x = self.first(x)
        for number, layer in enumerate(self.layers):
            if number != skipped:
                x = x + layer(x)
        return self.head(x)


def take_another_branch(rank: int) -> str:
    """The error of a rank if rank 1's graph is compiled again in the second step, without a
    block."""
    model = lockstep.shard(Branching(), "zero3")
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with pytest.raises(dist.DistBackendError) as caught:
        for step in range(2):
            x, y = batch(step, 0, rank, RANKS)
            skipped = 3 if (rank, step) == (1, 1) else None
            nn.functional.mse_loss(compiled(x, skipped), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    return str(caught.value)


def test_ranks_whose_graphs_run_other_blocks_get_an_error_with_the_calls_of_both() -> None:
    for told in run_ranks(RANKS, take_another_branch):
        assert re.search(r"rank 0 called .* unit \d+, .*rank 1 called .* unit \d+", told), told
        assert "\n" not in told


def test_a_model_with_a_part_that_is_compiled_to_cuda_graphs_is_refused() -> None:
    cuda = torch.device("cuda")
    model = Net()
    refuse_compiled_graphs(model, cuda)
    model.layers[0].compile(mode="max-autotune-no-cudagraphs")
    refuse_compiled_graphs(model, cuda)
    model.layers[1].compile(mode="reduce-overhead")
    with pytest.raises(ValueError, match=r"layers.1 is compiled to CUDA graphs.*mode='default'"):
        refuse_compiled_graphs(model, cuda)
    whole = torch.compile(Net(), mode="max-autotune")
    with pytest.raises(ValueError, match="the model is compiled to CUDA graphs"):
        refuse_compiled_graphs(whole, cuda)
    refuse_compiled_graphs(whole, torch.device("cpu"))


def give_a_batch_of_another_width(rank: int) -> None:
    model = lockstep.shard(Net(), "zero3")
    compiled = torch.compile(model, backend="eager")
    for step in range(2):
        x, y = batch(step, 0, rank, RANKS)
        if (rank, step) == (1, 1):
            x = x[:, :-1]
        nn.functional.mse_loss(compiled(x), y).backward()


def test_input_that_does_not_fit_is_torchs_error_on_its_rank_and_names_it_on_the_others() -> None:
    other, own = run_ranks_to_the_end(RANKS, give_a_batch_of_another_width)
    assert own.error is not None and other.error is not None
    assert "shapes cannot be multiplied" in own.error
    assert re.search(r"DistBackendError: rank 0: all-gather of .*: rank 1 \(.*\) died", other.error)
