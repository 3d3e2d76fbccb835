"""`lockstep checkpoint`: safetensors files in and out, and what is said of damage.

The parser here is written after the format's description, not after ours.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_probe import typed

TENSORS = {
    "embedding.weight": ("F32", [13, 7], struct.pack("<91f", *range(91))),
    "norm.count": ("I64", [], struct.pack("<q", 2026)),
    "head.bias": ("BF16", [3], b"\x80\x3f\x00\x40\x40\x40"),
}


def write_safetensors(path: Path) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "lockstep.note.layers": "2"}}
    data = b""
    for name, (dtype, shape, content) in TENSORS.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content
    words = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(words)) + words + data)


def read_safetensors(path: Path) -> tuple[dict[str, str], dict[str, tuple[str, list[int], bytes]]]:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    data = content[8 + size :]
    metadata = header.pop("__metadata__", {})
    spans = sorted(entry["data_offsets"] for entry in header.values())
    assert [0, *(end for _, end in spans)] == [*(begin for begin, _ in spans), len(data)]
    return metadata, {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_safetensors(tmp_path / "model.safetensors")
    imported = typed(
        "checkpoint", "import", tmp_path / "model.safetensors", "--to", tmp_path / "run"
    )
    assert imported.returncode == 0, imported.stderr
    return tmp_path / "run"


def test_a_model_comes_out_as_it_went_in(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    exported = typed("checkpoint", "export", folder, "--to", out)
    assert exported.returncode == 0, exported.stderr
    assert exported.stdout.startswith("3 tensors of ")
    metadata, tensors = read_safetensors(out)
    assert tensors == TENSORS
    assert metadata == {"lockstep.note.layers": "2"}


def test_torch_reads_an_export_without_executing_anything(folder: Path, tmp_path: Path) -> None:
    import torch  # here, since it takes two seconds

    out = tmp_path / "out.pt"
    exported = typed("checkpoint", "export", folder, "--to", out)
    assert exported.returncode == 0, exported.stderr
    for mmap in (False, True):
        model = torch.load(out, weights_only=True, mmap=mmap)
        assert set(model) == set(TENSORS)
        weight = model["embedding.weight"]
        assert weight.equal(torch.arange(91, dtype=torch.float32).view(13, 7))
        assert weight.data_ptr() % 64 == 0 or not mmap
        assert model["norm.count"].equal(torch.tensor(2026))
        assert model["head.bias"].equal(torch.tensor([1, 2, 3], dtype=torch.bfloat16))


def test_a_checkpoint_is_listed_and_shown_without_a_daemon(folder: Path) -> None:
    listed = json.loads(typed("checkpoint", "ls", folder, "--json").stdout)
    assert [(one["step"], one["ranks"], one["problem"]) for one in listed] == [(0, 1, None)]
    shown = typed("checkpoint", "show", folder).stdout
    assert "parameter/embedding.weight  float32   [13, 7]" in shown
    assert "\n\n\n" not in shown
    manifest = json.loads(typed("checkpoint", "show", folder, "--json").stdout)
    assert {tensor["name"] for tensor in manifest["tensors"]} == {
        f"parameter/{name}" for name in TENSORS
    }


def test_damage_is_named_and_ends_with_1(folder: Path) -> None:
    step = folder / "step-00000000"
    assert typed("checkpoint", "verify", f"{step}/").stdout.startswith(f"{step} is whole: ")
    data = bytearray((step / "rank-0000.bin").read_bytes())
    data[100] ^= 4
    (step / "rank-0000.bin").write_bytes(data)
    verified = typed("checkpoint", "verify", step)
    assert verified.returncode == 1
    assert "rank-0000.bin was altered" in verified.stderr
    (step / "rank-0000.bin").unlink()
    assert "rank-0000.bin: No such file" in typed("checkpoint", "ls", folder).stdout


def test_an_export_replaces_no_file_unasked(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    out.write_text("mine")
    refused = typed("checkpoint", "export", folder, "--to", out)
    assert refused.returncode == 2
    assert f"{out} exists: choose another name, or replace it with --force" in refused.stderr
    assert out.read_text() == "mine"
    assert typed("checkpoint", "export", folder, "--to", out, "--force").returncode == 0
    assert read_safetensors(out)[1] == TENSORS


def test_a_file_that_is_no_safetensors_file_is_refused_with_sizes_to_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\necho no model\n")
    refused = typed("checkpoint", "import", tmp_path / "text", "--to", tmp_path / "run")
    assert refused.returncode != 0
    assert "it is no safetensors file: its header would have " in refused.stderr
    assert re.search(r"\d{5,}", refused.stderr.split("text: ")[1]) is None, refused.stderr


def test_wrong_usage_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    none = tmp_path / "none"
    for words, said in (
        (["export", folder], "say with --to where to write"),
        (["export", folder, "--to", "m.foo"], "end in .safetensors, or in .pt, .pth or .bin"),
        (["verify", folder, "--force"], "leave out --force"),
        (["verify", folder, "--to", "x"], "leave out --to"),
        (["ls", tmp_path / "empty"], "holds no checkpoints"),
        (["ls", none], f"there is no folder {none}\n"),
        (["show", none], f"there is no folder {none}\n"),
        (["verify", none / "step-00000001"], f"there is no folder {none}/step-00000001\n"),
        (["import", tmp_path / "model.safetensors", "--to", folder], "holds checkpoints"),
        (["delete", folder], "no action 'delete'"),
    ):
        refused = typed("checkpoint", *words)
        assert refused.returncode == 2, refused.stderr
        assert said in refused.stderr
