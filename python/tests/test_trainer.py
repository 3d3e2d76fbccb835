"""transformers.Trainer over lockstep.shard gives the results of the Trainer on one device."""

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from ranks import Outcome, fork_all, run_ranks

pytest.importorskip("accelerate", reason="needs accelerate")

import transformers

from lockstep.transformers import Trainer

ROWS, BATCH, CONTEXT = 32, 8, 12


def gpt2() -> Any:
    torch.manual_seed(1)
    off = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=16, n_embd=20, n_layer=3, n_head=2, use_cache=False, **off
    )
    return transformers.GPT2LMHeadModel(config)


def rows(seed: float) -> list[dict[str, Any]]:
    """The number of labels differs between the rows, and so between the ranks."""
    numbers = (torch.sin(torch.arange(ROWS * CONTEXT) * 1.7 + seed) * 20 + 20).long()
    made = []
    for number, row in enumerate(numbers.view(ROWS, CONTEXT).clamp(0, 39)):
        labels = row.clone()
        labels[: number % 5] = -100
        made.append({"input_ids": row, "labels": labels})
    return made


def train(folder: str, ranks: int, steps: int, resume: str | None, **options: Any) -> Any:
    """The losses by step, those of the evaluation, and the files' parameters at the end."""
    arguments = transformers.TrainingArguments(
        folder,
        max_steps=steps,
        per_device_train_batch_size=BATCH // ranks // 2,
        per_device_eval_batch_size=BATCH // ranks,
        gradient_accumulation_steps=2,
        max_grad_norm=0.5,
        learning_rate=0.01,
        lr_scheduler_type="inverse_sqrt",  # which does not depend on the number of steps
        warmup_steps=1,
        logging_steps=1,
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **options.pop("arguments", {}),
    )
    make = Trainer if options else transformers.Trainer
    trainer = make(gpt2(), arguments, train_dataset=rows(0), eval_dataset=rows(9), **options)
    trainer.train(resume_from_checkpoint=resume)
    history = trainer.state.log_history
    losses = {each["step"]: each["loss"] for each in history if "loss" in each}
    evaluated = {each["step"]: each["eval_loss"] for each in history if "eval_loss" in each}
    return losses, evaluated, [each["grad_norm"] for each in history if "grad_norm" in each]


def alone(folder: str, steps: int, **options: Any) -> Any:
    (outcome,) = fork_all([functools.partial(train, folder, 1, steps, None, **options)])
    assert isinstance(outcome, Outcome) and outcome.error is None, outcome.error
    return outcome.value


def as_rank(rank: int, ranks: int, *arguments: Any, **options: Any) -> Any:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    return train(arguments[0], ranks, *arguments[1:], **options)


def weights(folder: str) -> dict[str, torch.Tensor]:
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    return dict(model.state_dict())


def test_it_learns_what_one_device_learns_and_resumes(tmp_path: Path) -> None:
    """With clipping, accumulation, evaluation; over Gloo, by which TrainingArguments connects."""
    backend = "gloo"
    losses, evaluated, norms = alone(f"{tmp_path}/alone", 6)
    policy = functools.partial(as_rank, policy="mics:2")
    first = run_ranks(4, policy, 4, f"{tmp_path}/many", 4, None, backend=backend)[0]
    assert first[0] == pytest.approx({step: losses[step] for step in range(1, 5)}, abs=1e-4)
    assert first[2] == pytest.approx(norms[:4], rel=1e-3)
    resume = f"{tmp_path}/many/checkpoint-4"
    policy = functools.partial(as_rank, policy="zero3")
    second = run_ranks(2, policy, 2, f"{tmp_path}/few", 6, resume, backend=backend)[0]
    assert second[0] == pytest.approx(losses, abs=1e-4)
    assert second[1] == pytest.approx(evaluated, abs=1e-4)
    names = [set(safetensors.torch.load_file(file)) for file in tmp_path.glob("*/*/*.safetensors")]
    assert all(each == names[0] for each in names)  # tied parameters once
    found, expected = (
        weights(f"{tmp_path}/few/checkpoint-6"),
        weights(f"{tmp_path}/alone/checkpoint-6"),
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_it_resumes_from_one_device(backend: str, tmp_path: Path) -> None:
    losses, _, _ = alone(f"{tmp_path}/alone", 4)
    resume = f"{tmp_path}/alone/checkpoint-2"
    policy = functools.partial(as_rank, policy="zero3")
    found = run_ranks(4, policy, 4, f"{tmp_path}/many", 4, resume, backend=backend)[0]
    assert found[0] == pytest.approx(losses, abs=1e-4)


def test_it_learns_in_mixed_precision(backend: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"arguments": {"bf16": True}}
    losses, _, _ = alone(f"{tmp_path}/alone", 2, **options)
    policy = functools.partial(as_rank, policy="zero3", **options)
    found = run_ranks(2, policy, 2, f"{tmp_path}/many", 2, None, backend=backend)[0]
    assert found[0] == pytest.approx(losses, abs=2e-2)
