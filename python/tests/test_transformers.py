"""lockstep.shard with models of the transformers library, whose code does not depend on it."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import Crew, run_ranks
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import lockstep

RANKS = 4
VOCABULARY, CONTEXT, WIDTH, LAYERS = 32, 8, 16, 3
BATCH = 8  # rows over all ranks
STEPS = range(3)
EXACT = 1e-9


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


def gpt2() -> Any:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=2,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).train()


def llama() -> Any:
    """With rotary embeddings, whose frequencies are buffers that are not saved."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config).train()


def rows(step: int, rank: int = 0, ranks: int = 1) -> Tensor:
    """A rank's part of a batch of pseudo-random tokens."""
    tokens = (torch.arange(BATCH * CONTEXT) * 7 + step * 5) ** 2 % 31
    return tokens.view(BATCH, CONTEXT)[rank * BATCH // ranks : (rank + 1) * BATCH // ranks]


def loss_of(model: nn.Module, step: int, rank: int = 0, ranks: int = 1) -> Tensor:
    mine = rows(step, rank, ranks)
    loss: Tensor = model(input_ids=mine, labels=mine).loss
    return loss


def learn(model: nn.Module, rank: int = 0, ranks: int = 1) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in STEPS:
        loss_of(model, step, rank, ranks).backward()
        optimizer.step()
        optimizer.zero_grad()


def drawn_alike(recompute: bool = False) -> Any:
    torch.manual_seed(3)
    model = gpt2().double()
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def expect_what_plain_torch_learns(rank: int) -> None:
    learn(alone := drawn_alike())
    expected = alone.state_dict()
    for policy, recompute in (
        ("ddp", False),
        ("ddp", True),
        ("zero3", False),
        ("zero3", True),
        ("mics:2", True),
        ("mics:2+recompute", False),
    ):
        model = lockstep.shard(drawn_alike(recompute), policy)
        learn(model, rank, RANKS)
        for name, value in lockstep.state_dict(model).items():
            torch.testing.assert_close(
                value, expected[name], rtol=EXACT, atol=EXACT, msg=f"{policy} {recompute} {name}"
            )


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_a_gpt2_learns_what_plain_torch_learns(crew: Crew) -> None:
    crew.run(expect_what_plain_torch_learns)


def save(rank: int, folder: str) -> None:
    torch.manual_seed(7)
    gpt2().save_pretrained(f"{folder}/gpt2", max_shard_size="20KB")
    llama().save_pretrained(f"{folder}/llama")


def on_meta(make: Any) -> Any:
    with torch.device("meta"):
        return make()


def read(rank: int, folder: str) -> None:
    expected = GPT2LMHeadModel.from_pretrained(f"{folder}/gpt2").state_dict()
    for policy in ("ddp", "zero3", "mics:2"):
        model = lockstep.shard(on_meta(gpt2), policy, weights=f"{folder}/gpt2")
        assert model.lm_head.weight is model.transformer.wte.weight
        whole = lockstep.state_dict(model)
        assert rank != 0 or whole.keys() == expected.keys()
        for name, value in whole.items():
            assert torch.equal(value, expected[name]), (policy, name)
        learn(model, rank, RANKS)


def test_what_save_pretrained_wrote_is_read(crew: Crew, backend: str, tmp_path: Path) -> None:
    run_ranks(1, save, str(tmp_path), backend=backend)
    index = json.loads((tmp_path / "gpt2" / "model.safetensors.index.json").read_text())
    names = index["weight_map"]
    assert len(set(names.values())) > 1
    assert "lm_head.weight" not in names, "it is tied: once is enough"
    crew.run(functools.partial(read, folder=str(tmp_path)))


def read_rotary(rank: int, folder: str) -> None:
    saved = LlamaForCausalLM.from_pretrained(f"{folder}/llama").train()
    model = on_meta(llama)
    lockstep.shard(model, "zero3", weights=f"{folder}/llama", init=model._init_weights)
    ours, theirs = loss_of(model, 0), loss_of(saved, 0)
    torch.testing.assert_close(ours, theirs)
    with pytest.raises(ValueError, match=r"no weights file has .*inv_freq, .* give init= if it"):
        lockstep.shard(on_meta(llama), "zero3", weights=f"{folder}/llama")


def test_buffers_that_are_in_no_file_are_filled_by_init(
    crew: Crew, backend: str, tmp_path: Path
) -> None:
    run_ranks(1, save, str(tmp_path), backend=backend)
    crew.run(functools.partial(read_rotary, folder=str(tmp_path)))


def draw(rank: int) -> None:
    model = on_meta(gpt2)
    torch.manual_seed(5 + rank)
    lockstep.shard(model, "zero3", init=model._init_weights)
    learn(model, rank, RANKS)
    model = on_meta(gpt2)
    torch.manual_seed(5 + rank)
    whole = lockstep.state_dict(lockstep.shard(model, "mics:2", init=model._init_weights))
    if rank != 0:
        return
    assert torch.equal(whole["lm_head.weight"], whole["transformer.wte.weight"])
    block = "transformer.h.1."
    assert whole[block + "ln_1.weight"].tolist() == [1.0] * WIDTH
    assert whole[block + "attn.c_attn.bias"].abs().max() == 0
    # The library's own deviation, which is smaller for weights that are added to the residual.
    assert whole[block + "attn.c_attn.weight"].std().item() == pytest.approx(0.02, rel=0.2)
    narrow = 0.02 / (2 * LAYERS) ** 0.5
    assert whole[block + "mlp.c_proj.weight"].std().item() == pytest.approx(narrow, rel=0.2)


def test_values_are_drawn_as_the_library_draws_them(crew: Crew) -> None:
    crew.run(draw)
