"""A LightningModule that does not depend on Lockstep, trained on many ranks by one argument.

    lockstep run -n 2 -g 2 -- python examples/lightning/train.py --data FILE --policy mics:2
    torchrun --nproc-per-node 4 examples/lightning/train.py --data FILE --policy zero3
    python examples/lightning/train.py --data FILE --devices 4      # Lightning starts the ranks

It learns which byte follows. It needs `pip install lightning`. With --checkpoints it saves every
epoch, and resumes from the last of them with any number of ranks and any policy.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lockstep.lightning import LockstepStrategy


class Windows(Dataset[Tensor]):
    """Rows of consecutive bytes of a file."""

    def __init__(self, file: Path, context: int) -> None:
        data = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8).long()
        self._rows = data[: len(data) // (context + 1) * (context + 1)].view(-1, context + 1)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Tensor:
        return self._rows[row]


class Bytes(lightning.LightningModule):
    """A small transformer that predicts the next byte."""

    def __init__(self, layers: int, width: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embedding(x) + self.position[: x.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            hidden = layer(hidden, mask, is_causal=True)
        return self.head(hidden)

    def training_step(self, rows: Tensor, number: int) -> Tensor:
        loss = nn.functional.cross_entropy(self(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        loss = self.trainer.callback_metrics["loss"].item()
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch} loss {loss:.4f}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--policy", default="mics:2", help="ddp, zero1, zero2, zero3, mics:2, ...")
    parser.add_argument("--devices", type=int, help="ranks of a host, if no launcher started them")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="rows a step, over all ranks")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64, help="bytes")
    parser.add_argument("--precision", default="32-true", help="32-true, bf16-mixed, bf16-true")
    parser.add_argument("--checkpoints", type=Path, help="a folder")
    return parser.parse_args()


def devices_and_nodes(arguments: argparse.Namespace) -> tuple[int, int]:
    """Lightning wants to be told what a launcher has started."""
    if "LOCAL_WORLD_SIZE" not in os.environ:
        return arguments.devices or 1, 1
    devices = int(os.environ["LOCAL_WORLD_SIZE"])
    return devices, int(os.environ["WORLD_SIZE"]) // devices


def main() -> None:
    arguments = parse_arguments()
    lightning.seed_everything(1)
    devices, nodes = devices_and_nodes(arguments)
    saves = arguments.checkpoints is not None
    trainer = lightning.Trainer(
        strategy=LockstepStrategy(arguments.policy),
        devices=devices,
        num_nodes=nodes,
        max_epochs=arguments.epochs,
        precision=arguments.precision,
        gradient_clip_val=1.0,
        callbacks=[ModelCheckpoint(arguments.checkpoints, save_last=True)] if saves else [],
        enable_checkpointing=saves,
        logger=False,
        enable_progress_bar=False,
    )
    rows = Windows(arguments.data, arguments.context)
    batches = DataLoader(rows, arguments.batch // (devices * nodes), shuffle=True, drop_last=True)
    model = Bytes(arguments.layers, arguments.width, arguments.context)
    trainer.fit(model, batches, ckpt_path="last" if saves else None)


if __name__ == "__main__":
    main()
