"""PyTorch DistributedDataParallel over any backend: a plain script that knows nothing of Lockstep.

    torchrun --nproc-per-node 4 examples/ddp/train.py --backend lockstep
    torchrun --nproc-per-node 4 examples/ddp/train.py --backend gloo

It learns a synthetic function, and prints the loss over all ranks at every step. The data and the
initial weights depend only on --seed, so two backends print the same losses up to rounding.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FEATURES = 32


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", help="the backend of torch.distributed")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="samples a rank takes each step")
    parser.add_argument("--width", type=int, default=64, help="units of a hidden layer")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_data(samples: int, dtype: torch.dtype) -> TensorDataset:
    inputs = torch.randn(samples, FEATURES, dtype=dtype)
    targets = torch.sin(inputs @ torch.randn(FEATURES, 1, dtype=dtype))
    return TensorDataset(inputs, targets)


def make_model(width: int, dtype: torch.dtype) -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 1),
    ).to(dtype)


def mean_over_ranks(loss: torch.Tensor) -> float:
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train(arguments: argparse.Namespace) -> None:
    torch.manual_seed(arguments.seed)
    dtype = getattr(torch, arguments.dtype)
    samples = arguments.steps * arguments.batch * dist.get_world_size()
    data = make_data(samples, dtype)
    model = DistributedDataParallel(make_model(arguments.width, dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(
        data,
        batch_size=arguments.batch,
        sampler=DistributedSampler(data),
        num_workers=arguments.workers,
    )
    for step, (inputs, targets) in enumerate(loader):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_over_ranks = mean_over_ranks(loss)
        if dist.get_rank() == 0:
            print(f"step {step}  loss {loss_over_ranks:.17g}", flush=True)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    train(arguments)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
