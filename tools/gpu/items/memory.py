"""Memory of the device: what policy auto expects, and a model from the meta device."""

from __future__ import annotations

import ctypes
import gc
import json
import re
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import lockstep
from gpu import devices
from gpu.report import Seen, Skipped

RANKS = 8
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# A unit of the estimate is exact; cuBLAS has a workspace for each stream.
SLACK = {"cuda": 128 * 2**20, "simulated": 2**20}
WIDTHS = {"cuda": 2048, "simulated": 128, "cpu": 128}
BLOCKS = 24


class Stack(nn.Module):
    def __init__(self, width: int, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x


def bytes_of(model: nn.Module) -> int:
    return sum(each.numel() * each.element_size() for each in model.parameters())


def reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif device.type == "simulated":
        import simulated_device

        simulated_device.reset_bytes_in_use_max(device.index)


def peak(device: torch.device) -> int:
    """Bytes of tensors at once, since the last reset; 0 for the CPU, which does not count."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "simulated":
        import simulated_device

        return int(simulated_device.bytes_in_use_max(device.index))
    return 0


def stay_within_the_estimate(kind: str) -> Seen:
    """max_memory_allocated of a step, and the number by which policy auto chooses."""
    if kind == "cpu":
        raise Skipped("the CPU does not count its memory")
    device = devices.use(kind)
    model_bytes = bytes_of(Stack(WIDTHS[kind]))
    parts, numbers = [], {}
    for factor in (8.0, 4.0, 2.5, 1.8):  # of the parameters: from ddp to zero3
        with devices.group(kind, "lone_rank", RANKS):
            policy, expected, used = one_training(device, int(factor * model_bytes))
        if policy in numbers:
            continue
        numbers[policy] = used / expected
        parts.append(f"{policy} {used / 2**20:.1f} of {expected / 2**20:.1f} MiB")
        assert used <= expected * 1.05 + SLACK[kind], (
            f"{policy} used {used / 2**20:.0f} MiB, policy auto expects {expected / 2**20:.0f}"
        )
    assert len(parts) > 1, f"policy auto chose {', '.join(parts)} for every memory"
    return Seen(", ".join(parts), numbers)


def one_training(device: torch.device, memory: int) -> tuple[str, int, int]:
    """The policy that is chosen for so much memory, the expected bytes, and the used ones."""
    torch.manual_seed(1)
    before = peak_now(device)
    lines: list[str] = []
    model = Stack(WIDTHS[device.type]).to(device)
    with devices.standard_error(lines):
        lockstep.shard(model, f"auto:{memory // 2**10}KiB")
    policy, expected = estimate_in(lines)
    fused = device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=False)
    x = torch.ones(8, WIDTHS[device.type], device=device)
    for step in range(3):
        if step == 1:  # the first one allocates the optimizer's state
            reset_peak(device)
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    devices.synchronize(device)
    return policy, expected, peak(device) - before


def peak_now(device: torch.device) -> int:
    gc.collect()  # models before
    reset_peak(device)
    return peak(device)


def estimate_in(lines: list[str]) -> tuple[str, int]:
    pattern = r"policy auto: (\S+) .*?: ([\d.]+) (B|KiB|MiB|GiB) of"
    found = [each for each in (re.search(pattern, line) for line in lines) if each]
    assert found, f"policy auto did not report its choice: {lines}"
    return found[0][1], int(float(found[0][2]) * UNITS[found[0][3]])


def read_weights_of_a_meta_model(kind: str) -> Seen:
    """weights= reads this rank's part; the device never has memory for the whole model."""
    device = devices.use(kind)
    width = WIDTHS[kind]
    torch.manual_seed(2)
    source = Stack(width)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_safetensors(path, source.state_dict())
        with torch.device("meta"):
            model = Stack(width)
        before = peak_now(device)
        with devices.group(kind, "lone_rank", RANKS, 3):
            lockstep.shard(model, "zero3", weights=path, device=device)
            devices.synchronize(device)
            used = peak(device) - before
            check_parts(model, source.state_dict(), device)
    whole = bytes_of(source)
    if kind == "cpu":
        return Seen("zero3, rank 3 of 8: its part has the weights of the file")
    # Its part, gradients and moments come later; a few blocks are gathered.
    allowed = whole // RANKS + 6 * whole // BLOCKS + SLACK[kind]
    assert used <= allowed, (
        f"shard() used {used / 2**20:.0f} MiB of the device for an eighth of "
        f"{whole / 2**20:.0f} MiB"
    )
    return Seen(
        f"zero3, rank 3 of 8: {used / 2**20:.0f} MiB at most, for an eighth of "
        f"{whole / 2**20:.0f} MiB",
        {"bytes_max": used},
    )


def check_parts(model: nn.Module, weights: dict[str, Tensor], device: torch.device) -> None:
    for name, _, begin, end, tensor in model._lockstep.core.state():
        assert tensor.device == device, f"{name} is on {tensor.device}"
        expected = weights[name.removeprefix("parameter/")].flatten()[begin:end]
        assert torch.equal(tensor.cpu(), expected), f"{name} differs from the file"


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes 32-bit floats. https://github.com/huggingface/safetensors has the format."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * 4
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    words = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(words).to_bytes(8, "little") + words)
        for tensor in tensors.values():
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * 4))
