"""A GPT-2 of the transformers library, which does not depend on Lockstep, trained on many ranks.

    lockstep run -n 2 -g 2 -- python examples/hugging_face/train.py --data FILE --policy mics:2
    torchrun --nproc-per-node 4 examples/hugging_face/train.py --data FILE --policy zero3

It learns bytes, so that it needs no tokenizer; it needs `pip install transformers`. With --weights
it starts from the output of such a model's save_pretrained(). No rank ever has memory for more than
a block besides its part of the model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import lockstep


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--policy", default="mics:2", help="ddp, zero1, zero2, zero3, mics:2, ...")
    parser.add_argument("--backend", default="lockstep", help="of torch.distributed")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="windows a step, over all ranks")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64, help="bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", type=Path, help="a safetensors file, or a folder of them")
    parser.add_argument("--checkpointing", action="store_true", help="recompute blocks in backward")
    return parser.parse_args()


def make_model(arguments: argparse.Namespace) -> Any:
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        raise SystemExit("this example needs transformers: pip install transformers") from None
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
    with torch.device("meta"):
        model = GPT2LMHeadModel(config)
    if arguments.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def windows(data: Tensor, starts: list[int], context: int) -> Tensor:
    return torch.stack([data[start : start + context] for start in starts])


def train(arguments: argparse.Namespace) -> None:
    data = torch.frombuffer(bytearray(arguments.data.read_bytes()), dtype=torch.uint8).long()
    model = make_model(arguments)
    torch.manual_seed(arguments.seed)
    lockstep.shard(model, arguments.policy, weights=arguments.weights, init=model._init_weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sampler = lockstep.Sampler(len(data) - arguments.context, arguments.batch, arguments.seed)
    for step in range(1, arguments.steps + 1):
        batch = windows(data, sampler.next(), arguments.context)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        lockstep.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            lockstep.log({"loss": total.item() / dist.get_world_size()}, step=step)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)  # ranks share cores
    dist.init_process_group(arguments.backend)
    train(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
