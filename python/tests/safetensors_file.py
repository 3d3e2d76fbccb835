"""Writes safetensors files according to the format, with other code than the tested one."""

import json
from pathlib import Path

import torch
from torch import Tensor

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bfloat16: "BF16"}


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    header, parts, begin = {}, [], 0
    for name, tensor in tensors.items():
        part = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        places = [begin, begin + len(part)]
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": places,
        }
        parts.append(part)
        begin += len(part)
    words = json.dumps(header).encode()
    path.write_bytes(len(words).to_bytes(8, "little") + words + b"".join(parts))
