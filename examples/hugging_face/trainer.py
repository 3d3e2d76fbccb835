"""A Trainer of the transformers library on many ranks: one changed name and one argument.

    lockstep run -n 2 -g 2 -- python examples/hugging_face/trainer.py --data FILE --policy mics:2
    torchrun --nproc-per-node 4 examples/hugging_face/trainer.py --data FILE --policy zero3

It learns bytes, so that it needs no tokenizer; it needs `pip install transformers accelerate`. With
--output it saves a checkpoint every 50 steps, and resumes from the last of them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from lockstep.transformers import Trainer


class Windows(Dataset[dict[str, Tensor]]):
    """Rows of consecutive bytes of a file."""

    def __init__(self, file: Path, context: int) -> None:
        data = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8).long()
        self._rows = data[: len(data) // context * context].view(-1, context)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"input_ids": self._rows[row], "labels": self._rows[row]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--policy", default="mics:2", help="ddp, zero1, zero2, zero3, mics:2, ...")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=4, help="windows a step, of each rank")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64, help="bytes")
    parser.add_argument("--output", type=Path, help="a folder for checkpoints")
    return parser.parse_args()


def make_model(arguments: argparse.Namespace) -> GPT2LMHeadModel:
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=256,
        n_positions=arguments.context,
        n_embd=arguments.width,
        n_layer=arguments.layers,
        n_head=4,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        use_cache=False,
        bos_token_id=None,  # no byte is special
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def main() -> None:
    arguments = parse_arguments()
    saves = arguments.output is not None
    training = TrainingArguments(
        str(arguments.output or tempfile.gettempdir()),
        max_steps=arguments.steps,
        per_device_train_batch_size=arguments.batch,
        learning_rate=1e-3,
        logging_steps=10,
        save_strategy="steps" if saves else "no",
        save_steps=50,
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
        disable_tqdm=True,
    )
    data = Windows(arguments.data, arguments.context)
    trainer = Trainer(make_model(arguments), training, train_dataset=data, policy=arguments.policy)
    last = get_last_checkpoint(arguments.output) if saves and arguments.output.is_dir() else None
    trainer.train(resume_from_checkpoint=last)


if __name__ == "__main__":
    main()
