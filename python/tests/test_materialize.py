"""Models from the meta device: drawn or read block by block, the same at any N and by any
policy."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import Crew, run_ranks
from safetensors_file import write_safetensors
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import lockstep

WIDTH = 32
BLOCK = WIDTH * WIDTH * 4 + WIDTH * 4 + 2 * WIDTH  # parameters of a block


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.widen(self.norm(x)).view(*x.shape, 4).sum(-1)


class Tower(nn.Module):
    def __init__(self, blocks: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tower(**arguments: Any) -> nn.Module:
    with torch.device("meta"):
        model = Tower()
    torch.manual_seed(5)
    return lockstep.shard(model, **arguments)


def values(rank: int, policy: str) -> dict[str, Any]:
    torch.manual_seed(5)
    whole = lockstep.state_dict(tower(policy=policy))
    return {name: tensor.double().sum().item() for name, tensor in whole.items()}


def draw(rank: int, expected: dict[str, Any]) -> None:
    for policy in ("ddp", "zero2", "zero3", "mics:2+opt"):
        if rank != 1:
            torch.manual_seed(99)  # only rank 0's own seed has an effect
        found = values(rank, policy)
        assert rank != 0 or found == expected, policy
        model = tower(policy=policy)
        model(torch.arange(4)).sum().backward()


def test_drawn_values_depend_neither_on_ranks_nor_on_the_policy(crew: Crew, backend: str) -> None:
    (expected,) = run_ranks(1, values, "ddp", backend=backend)
    assert expected["blocks.1.norm.weight"] == WIDTH
    assert expected["blocks.1.widen.weight"] != expected["blocks.2.widen.weight"]
    crew.run(functools.partial(draw, expected=expected))


class Watch(TorchDispatchMode):
    """The largest size of live tensors that factories have made, at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and not made.is_meta and "empty" in str(func):
            self.sizes.append(made.untyped_storage().nbytes())
        return made


def count_memory(rank: int) -> None:
    with Watch() as watch:
        model = tower(policy="zero3")
    assert max(watch.sizes) <= 4 * BLOCK  # never more than a block's at once
    held = sum(tensor.numel() for _, _, _, _, tensor in model._lockstep.core.state())
    assert held < 4 * BLOCK / 4 + 2000
    for block in model.blocks:
        assert block.widen.weight.untyped_storage().nbytes() == 0


def test_no_rank_has_memory_for_more_than_its_part_and_a_block(crew: Crew) -> None:
    crew.run(count_memory)


def wave_state() -> dict[str, Tensor]:
    """Values for a Tower; they differ from all drawn ones."""
    state = {}
    with torch.device("meta"):
        shapes = dict(Tower().state_dict())
    for number, (name, like) in enumerate(shapes.items()):
        count = torch.arange(like.numel(), dtype=torch.float64)
        state[name] = torch.sin(count + number).to(like.dtype).view(like.shape)
    state["head.weight"] = state["embed.weight"]
    return state


def read(rank: int, folder: str) -> None:
    expected = wave_state()
    for policy in ("ddp", "zero3", "mics:2+opt"):
        whole = lockstep.state_dict(tower(policy=policy, weights=folder))
        for name, tensor in whole.items():
            assert torch.equal(tensor, expected[name]), (policy, name)
    # Also for a model that has values.
    model = lockstep.shard(Tower(), "mics:2", weights=[f"{folder}/{part}" for part in PARTS])
    whole = lockstep.state_dict(model)
    for name, tensor in whole.items():
        assert torch.equal(tensor, expected[name]), name


PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write_parts(rank: int, folder: str, lacking: str = "") -> None:
    state = wave_state()
    del state["head.weight"]  # the file has tied parameters once
    state.pop(lacking, None)
    names = sorted(state)
    places: dict[str, str] = {}
    for part, chosen in zip(PARTS, (names[::2], names[1::2]), strict=True):
        write_safetensors(Path(folder) / part, {name: state[name] for name in chosen})
        places |= dict.fromkeys(chosen, part)
    (Path(folder) / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def test_values_are_read_from_sharded_safetensors(crew: Crew, backend: str, tmp_path: Path) -> None:
    run_ranks(1, write_parts, str(tmp_path), backend=backend)
    crew.run(functools.partial(read, folder=str(tmp_path)))


def read_too_little(rank: int, folder: str) -> None:
    with pytest.raises(ValueError, match=r"the weights lack blocks.1.widen.bias; they have"):
        tower(policy="zero3", weights=folder)


def test_weights_that_lack_something_are_refused_by_name(
    crew: Crew, backend: str, tmp_path: Path
) -> None:
    run_ranks(1, write_parts, str(tmp_path), "blocks.1.widen.bias", backend=backend)
    crew.run(functools.partial(read_too_little, folder=str(tmp_path)))


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def draw_what_has_no_way(rank: int) -> None:
    with torch.device("meta"):
        model = nn.Sequential(Bare(), Bare())
    with pytest.raises(ValueError, match=r"Bare has parameters or buffers but no reset_parameters"):
        lockstep.shard(model, "zero3")
    with torch.device("meta"):
        model = nn.Sequential(Bare(), Bare())
    lockstep.shard(model, "zero3", init=fill)
    whole = lockstep.state_dict(model)
    assert rank != 0 or whole["1.weight"].tolist() == [2.5] * 3


def fill(module: nn.Module) -> None:
    if isinstance(module, Bare):
        nn.init.constant_(module.weight, 2.5)


def test_a_module_without_reset_parameters_needs_init(crew: Crew) -> None:
    crew.run(draw_what_has_no_way)
