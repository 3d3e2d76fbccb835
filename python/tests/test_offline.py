"""Reports into a folder (LOCKSTEP_OFFLINE, lockstep.offline), and images and histograms of log."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep._media import Histogram, Image, MediaFolder, as_media

numpy = pytest.importorskip("numpy", reason="needs numpy")

PYTHON = Path(lockstep.__file__).parents[1]


def run_program(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program without an agent, which must end within a minute."""
    own = {"LOCKSTEP_REPORT", "LOCKSTEP_URL", "LOCKSTEP_OFFLINE", "LOCKSTEP_MEDIA_DIR", "RANK"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"PYTHONPATH": str(PYTHON), **variables}
    return subprocess.run(
        [sys.executable, "-c", f"import lockstep\n{program}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_reports_without_an_agent_go_into_the_folder_of_the_environment(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    program = "lockstep.log({'loss': float('nan')}, step=3)\nlockstep.progress(3, 10)"
    assert run_program(program, LOCKSTEP_OFFLINE=str(folder), RANK="2").stdout == ""
    metrics, progress = lines_of(folder / "rank-2.jsonl")
    assert metrics | {"time_us": 0} == {
        "kind": "metrics",
        "step": 3,
        "time_us": 0,
        "values": {"loss": "NaN"},
    }
    assert progress.pop("time_us") >= metrics["time_us"]
    assert progress == {"kind": "progress", "step": 3, "steps": 10}
    identity = json.loads((folder / "run.json").read_text())["id"]
    run_program("lockstep.log({'loss': 1}, step=4)", LOCKSTEP_OFFLINE=str(folder), RANK="2")
    assert len(lines_of(folder / "rank-2.jsonl")) == 3, "it goes on in the same file"
    assert json.loads((folder / "run.json").read_text())["id"] == identity


def test_a_line_that_was_cut_does_not_damage_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_text('{"kind":"metr')
    program = f"lockstep.offline({str(tmp_path)!r})\nlockstep.log({{'loss': 1}}, step=1)"
    run_program(program)
    cut, whole = (tmp_path / "rank-0.jsonl").read_text().splitlines()
    assert cut == '{"kind":"metr'
    assert json.loads(whole)["values"] == {"loss": 1.0}


def test_without_a_folder_metrics_are_printed_and_images_named() -> None:
    program = "import numpy\nlockstep.log({'loss': 1, 'x': numpy.zeros((2, 2))}, step=1)"
    assert run_program(program).stdout.splitlines() == ["step 1  x Image", "step 1  loss 1"]


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run_program(
        "lockstep.log({'loss': 1}, step=1)", LOCKSTEP_OFFLINE=str(tmp_path / "file")
    )
    assert "LOCKSTEP_OFFLINE" in ended.stderr
    assert ended.stdout == "step 1  loss 1\n"


def test_images_and_histograms_are_requests_of_the_api_beside_the_numbers(tmp_path: Path) -> None:
    program = """
import numpy
pictures = [lockstep.Image(numpy.zeros((2, 3)), caption='black'), numpy.ones((2, 2, 3))]
lockstep.log({'loss': 1, 'samples': pictures, 'w': lockstep.Histogram([0, 0, 1], bins=2)}, step=7)
"""
    run_program(program, LOCKSTEP_OFFLINE=str(tmp_path), RANK="1")
    requests = [json.loads(path.read_text()) for path in (tmp_path / "media").iterdir()]
    assert all(each["step"] == 7 and each["rank"] == 1 for each in requests)
    assert all(each["time"].endswith("Z") for each in requests)
    [histogram] = [each for each in requests if each["kind"] == "histogram"]
    assert (histogram["name"], histogram["counts"]) == ("w", [2, 1])
    assert histogram["edges"] == [0, 0.5, 1]
    first, second = sorted(
        (each for each in requests if each["kind"] == "image"),
        key=lambda each: int(each.get("index", 0)),
    )
    assert first["caption"] == "black"
    assert "index" not in first
    assert second["index"] == 1
    assert base64.b64decode(first["data"]).startswith(b"\x89PNG")
    [metrics] = lines_of(tmp_path / "rank-1.jsonl")
    assert metrics["values"] == {"loss": 1.0}


def test_numbers_are_no_images() -> None:
    assert as_media(numpy.float32(1)) == []
    assert as_media(numpy.zeros((1, 1))) == []
    assert as_media([1, 2]) == []
    assert len(as_media(numpy.zeros((2, 2)))) == 1


def test_an_image_or_a_histogram_that_cannot_be_kept_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="PNG"):
        Image(b"<svg/>")
    with pytest.raises(ValueError, match="smaller"):
        Image(b"\x89PNG\r\n\x1a\n" + bytes(2 << 20))
    with pytest.raises(ValueError, match="one edge more"):
        Histogram(counts=[1], edges=[0])
    with pytest.raises(TypeError, match="either"):
        Histogram()


def test_a_folder_that_the_agent_does_not_empty_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lockstep._media._WAITING_MAX", 2)
    monkeypatch.setattr("lockstep._media._LOOK_EVERY", 1)
    folder = MediaFolder(tmp_path)
    for step in range(4):
        folder.add("w", [Histogram([1, 2], bins=1)], step, step, 0)
    assert len(list(tmp_path.iterdir())) == 2
    assert capsys.readouterr().err.count("wait for the daemon") == 1
