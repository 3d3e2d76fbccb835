"""The first items: torch and the extension, a model over a group of one rank, its checkpoint."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from models import net, train_alone
from torch import nn

import lockstep
from gpu import devices
from gpu.report import Seen
from gpu.training import EXACT, adamw, largest_difference, state_of, train
from lockstep._compiled import compiled


def import_torch_and_lockstep(kind: str) -> Seen:
    """The extension loads beside this torch, and the device computes."""
    compiled()
    versions = f"lockstep {lockstep.__version__}, torch {torch.__version__}"
    if kind == "cuda":
        assert torch.version.cuda is not None, (
            f"torch {torch.__version__} has no CUDA: install a CUDA build of it"
        )
        torch.cuda.init()  # its error says what is wrong with the driver
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        versions += f", CUDA {torch.version.cuda}, NCCL {nccl}, {torch.cuda.get_device_name(0)}"
    ones = torch.ones(64, 64, device=devices.use(kind))
    assert (ones @ ones).sum().item() == 64**3, "a product of matrices is wrong on the device"
    return Seen(versions)


def train_one_rank(kind: str) -> Seen:
    """A group made without device_id, as init_process_group("nccl") in most scripts."""
    device = devices.use(kind)
    alone = net()
    train_alone(alone, adamw(alone.parameters()), range(3))
    with devices.group(kind, devices.BACKENDS[kind]):
        model = lockstep.shard(net(device), "ddp")
        train(model, adamw(model.parameters()))
        difference = largest_difference(lockstep.state_dict(model), alone.state_dict())
    assert difference < EXACT, f"parameters differ by {difference:.1e} from those of the CPU"
    return Seen(f"ddp over {devices.BACKENDS[kind]}: differs by {difference:.1e} from the CPU")


def save_and_resume_one_rank(kind: str) -> Seen:
    """A checkpoint over the same group: saved, opened and resumed, with the same bits."""
    device = devices.use(kind)
    with devices.group(kind, devices.BACKENDS[kind]), tempfile.TemporaryDirectory() as folder:
        bytes_saved = save_and_resume(device, Path(folder))
    return Seen(f"{bytes_saved / 1e3:.0f} kB; the training goes on with the same bits")


def save_and_resume(device: torch.device, folder: Path) -> int:
    model = lockstep.shard(net(device), "ddp")
    optimizer = adamw(model.parameters())
    train(model, optimizer, range(2))
    checkpoints = lockstep.Checkpoints(folder, model, optimizer)
    checkpoints.save(2)
    checkpoints.finish()
    train(model, optimizer, range(2, 4))
    resumed: nn.Module = lockstep.shard(net(device), "ddp")
    other = adamw(resumed.parameters())
    step = lockstep.Checkpoints(folder, resumed, other, write=False).resume()
    assert step == 2, f"resumed at step {step} of 2"
    train(resumed, other, range(2, 4))
    difference = largest_difference(state_of(resumed), state_of(model))
    assert difference == 0, f"the resumed training differs by {difference:.1e}"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
