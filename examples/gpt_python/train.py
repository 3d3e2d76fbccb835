"""A byte-level GPT trained on many ranks by lockstep.shard, from Python.

    lockstep run -n 2 -g 2 -- python examples/gpt_python/train.py --data FILE --policy mics:2
    torchrun --nproc-per-node 4 examples/gpt_python/train.py --data FILE --policy zero3

With `lockstep run --on-failure shrink` or `wait` it continues when one of its ranks is killed. The
model is made on the meta device: no rank ever has memory for all of it. Its checkpoints are like
those of examples/gpt: `gpt sample` generates text from them, `gpt train` resumes from them.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
from model import BYTES, Gpt, Sizes, fill
from torch import Tensor
from torch.nn import functional

import lockstep


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--policy", default="ddp", help="ddp, zero1, zero2, zero3, mics:2, ...")
    parser.add_argument("--backend", default="lockstep", help="of torch.distributed")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16, help="windows a step, over all ranks")
    parser.add_argument("--micro-steps", type=int, default=1)
    parser.add_argument(
        "--rescale-batch",
        action="store_true",
        help="when fewer ranks go on after a death: a smaller batch, and learning rate, instead of "
        "more windows a rank",
    )
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="at its peak")
    parser.add_argument("--warmup", type=int, default=60, help="steps up to the peak")
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoints", default=os.environ.get("LOCKSTEP_CHECKPOINT_DIR"))
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps")
    for name, size in Sizes().notes().items():
        parser.add_argument(f"--{name}", type=int, default=int(size))
    return parser.parse_args()


class Text:
    """Windows of bytes and, for each byte, the one that follows; the last twentieth is held out."""

    def __init__(self, path: Path, context: int) -> None:
        data = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()
        cut = len(data) - len(data) // 20
        self.train, self.held_out = data[:cut], data[cut:]
        self.context = context
        if len(self.held_out) <= context:
            raise ValueError(f"{path} is too short for a context of {context} bytes")

    def windows(self) -> int:
        return len(self.train) - self.context

    def batch(self, data: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        rows = torch.stack([data[start : start + self.context + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]


def loss_of(model: Gpt, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy in nats a byte."""
    given, following = batch
    return functional.cross_entropy(model(given).reshape(-1, BYTES), following.reshape(-1))


def learning_rate(arguments: argparse.Namespace, step: int) -> float:
    """Linear up to the peak, then a cosine down to a twentieth of it."""
    peak: float = arguments.learning_rate
    if step < arguments.warmup:
        return peak * (step + 1) / arguments.warmup
    done = (step - arguments.warmup) / max(1, arguments.steps - arguments.warmup)
    return peak * (0.05 + 0.95 * (1 + math.cos(math.pi * min(1.0, done))) / 2)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """By the step's number, not by a scheduler: after a rank failure steps may be repeated."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def held_out_loss(model: Gpt, text: Text) -> float:
    count = (len(text.held_out) - 1) // text.context
    starts = [number * text.context for number in range(count)][:64]
    with torch.no_grad():
        return loss_of(model, text.batch(text.held_out, starts)).item()


def train(arguments: argparse.Namespace) -> None:
    torch.manual_seed(arguments.seed)
    text = Text(arguments.data, arguments.context)
    sizes = Sizes(arguments.layers, arguments.heads, arguments.width, arguments.context)
    with torch.device("meta"):
        model = Gpt(sizes)
    lockstep.shard(model, arguments.policy, blocks=model.blocks(), init=fill)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.98), weight_decay=0.1
    )
    sampler = lockstep.Sampler(text.windows(), arguments.batch, arguments.seed)
    training = lockstep.Training(
        model,
        optimizer,
        sampler,
        checkpoints=arguments.checkpoints,
        notes=sizes.notes(),
        micro_batches=arguments.micro_steps,
        rescale_batch=arguments.rescale_batch,
    )
    first = None
    for step in training.steps(arguments.steps):
        first = first or step.number
        if step.number == first > 1 and training.rank == 0:
            print(f"resuming from step {first - 1}", flush=True)
        with step:
            loss = 0.0
            for starts, weight in step:
                part = loss_of(model, text.batch(text.train, starts)) * weight
                part.backward()
                loss += part.item()
            lockstep.clip_grad_norm_(model.parameters(), arguments.clip_norm)
            set_learning_rate(optimizer, learning_rate(arguments, step.number - 1))
            optimizer.step()
            optimizer.zero_grad()
            loss = training.mean(loss)
            lockstep.progress(step.number, arguments.steps)
            if training.rank == 0:
                lockstep.log({"loss": loss}, step=step.number)
            due = step.is_last or step.number % arguments.checkpoint_every == 0
            if arguments.checkpoints and due:
                step.save()
    held_out = held_out_loss(model, text)
    if training.rank == 0:
        print(f"held-out loss {held_out:.3f} nats a byte", flush=True)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)  # ranks share cores
    if arguments.backend != "lockstep":  # otherwise lockstep.shard connects
        dist.init_process_group(arguments.backend)
    train(arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
