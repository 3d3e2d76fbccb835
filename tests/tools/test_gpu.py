"""./dev gpu without a GPU: its list, its report, its processes, and the archive."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build"))
FOLDER = ROOT / "tools" / "gpu" / "items"
sys.path.insert(0, str(ROOT / "tools"))

from gpu import nvml, processes  # noqa: E402
from gpu.item_list import ITEMS  # noqa: E402

LINE = re.compile(r"(pass|FAIL|skipped) +([\w-]+) +(\S.*)  [\d.]+ s")


def items_in_the_sources() -> Iterator[tuple[str, str | None]]:
    """Functions that take the kind of device and return what they saw; their docstrings."""
    for path in FOLDER.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or node.returns is None:
                continue
            arguments = [each.arg for each in node.args.args]
            if ast.unparse(node.returns) == "Seen" and arguments == ["kind"]:
                yield f"{path.stem}:{node.name}", ast.get_docstring(node)


def test_every_item_is_in_the_list_once_and_says_what_it_tries() -> None:
    found = dict(items_in_the_sources())
    assert sorted(found) == sorted(item.function for item in ITEMS)
    assert all(found.values()), [name for name, words in found.items() if not words]
    assert len({item.name for item in ITEMS}) == len(ITEMS)


def test_items_of_one_gpu_come_first_and_each_has_a_time_limit() -> None:
    needs_several = [item.gpus > 1 for item in ITEMS]
    assert needs_several == sorted(needs_several)
    assert all(0 < item.seconds <= 240 for item in ITEMS)


def accept(report: Path, *words: str) -> tuple[int, list[str], dict[str, Any]]:
    """The exit status, the lines of items, and the report."""
    ended = subprocess.run(
        [sys.executable, "-m", "gpu.acceptance", "--json", report, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if LINE.fullmatch(line)]
    assert report.exists(), ended.stdout + ended.stderr
    return ended.returncode, lines, json.loads(report.read_text())


def test_items_pass_on_the_cpu_and_the_report_has_what_the_lines_say(tmp_path: Path) -> None:
    names = ("import", "one-rank", "discovery")
    status, lines, report = accept(tmp_path / "report.json", "--device", "cpu", *names)
    assert [LINE.fullmatch(line)[1] for line in lines] == ["pass"] * 3, lines  # type: ignore[index]
    assert status == 0
    assert (report["format"], report["device"]) == (1, "cpu")
    assert (report["passed"], report["failed"], report["skipped"]) == (3, 0, 0)
    assert [item["name"] for item in report["items"]] == list(names)
    for item, line in zip(report["items"], lines, strict=True):
        assert item["saw"] in line
        assert item["seconds"] > 0
    machine = report["machine"]
    for key in ("cards", "driver", "torch", "cuda", "nccl", "python", "lockstep", "commit", "date"):
        assert key in machine, key
    assert machine["torch"]


def test_a_torch_without_a_gpu_fails_one_item_and_skips_those_that_need_it(tmp_path: Path) -> None:
    names = ("import", "policies", "discovery")
    status, lines, report = accept(tmp_path / "report.json", "--device", "cuda", *names)
    assert status == 1
    assert [item["outcome"] for item in report["items"]] == ["FAIL", "skipped", "pass"], lines
    assert "torch finds no GPU" in report["items"][1]["saw"]
    assert any("import_torch_and_lockstep" in line for line in report["items"][0]["log"])


def test_the_simulated_device_finds_no_wait_but_the_norms(tmp_path: Path) -> None:
    status, lines, _ = accept(tmp_path / "report.json", "--device", "simulated", "host-reads")
    assert status == 0, lines
    assert "no wait but the norm's" in lines[0]


HANGS = """
import subprocess, time
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""
RUN = """
import os, sys
from pathlib import Path
from gpu import processes
ended = processes.run([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]), 2, os.environ)
print(ended.problem())
"""


def problem_of(program: str, log: Path) -> str:
    """In a process of its own, because it adopts orphans."""
    return subprocess.run(
        [sys.executable, "-c", RUN, program, log],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()


def test_an_item_that_hangs_is_ended_with_the_daemons_that_it_started(tmp_path: Path) -> None:
    assert problem_of(HANGS, tmp_path / "log") == "had not ended after 2 s"
    assert not Path(f"/proc/{(tmp_path / 'log').read_text().strip()}").exists()


def test_an_item_that_crashes_says_by_which_signal(tmp_path: Path) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert problem_of(crash, tmp_path / "log") == "ended by SIGSEGV"
    assert problem_of("raise SystemExit(3)", tmp_path / "log") == "ended with status 3"
    assert processes.Ended(0, 1.0, []).problem() == ""


def test_nvml_lists_cards_and_the_islands_that_nvlink_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", str(BUILD / "lib/libfake_nvml.so"))
    cards = nvml.cards()
    assert nvml.driver() == "580.00"
    assert [card.uuid for card in cards][:3] == ["GPU-01", "GPU-02", "GPU-41"]
    assert [card.mig for card in cards] == [False] * 4 + [True] + [False] * 2
    assert (cards[0].name, cards[0].pci, cards[0].memory) == ("Card 01", "0000:01:00", 80 << 30)
    islands = [sorted(each) for each in nvml.linked_islands(cards)]
    assert sorted(islands) == [[0, 1], [2, 3, 4], [5], [6]]


def test_without_nvml_there_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libabsent.so.1")
    assert nvml.cards() == []
    assert not nvml.is_there()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    archive = folder / "bundle.tar.gz"
    subprocess.run(
        [sys.executable, "-m", "gpu.bundle", archive],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert archive.stat().st_size < 60e6
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True, timeout=60)
    (root,) = (path for path in folder.iterdir() if path.is_dir())
    return root


def test_a_bundle_has_every_header_that_its_sources_include(unpacked: Path) -> None:
    include = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
    folders = [unpacked / name for name in ("src", "include", "python", "third_party/include")]
    ours = {path.name for path in (unpacked / "src").iterdir()} | {"lockstep"}
    others = ("fmt/", "nlohmann/", "boost/", "openssl/", "yaml-cpp/", "hwloc", "rdma/", "xxhash")
    manifest = json.loads((unpacked / "manifest.json").read_text())
    waiting = [unpacked / name for names in manifest["sources"].values() for name in names]
    seen = set(waiting)
    while waiting:
        source = waiting.pop()
        for header in include.findall(source.read_text()):
            is_ours = "/" in header and header.split("/")[0] in ours
            if not is_ours and not header.startswith(others):
                continue  # the standard library's (such as <map>), torch's, Python's
            found = next((each / header for each in folders if (each / header).is_file()), None)
            assert found, f"{source.relative_to(unpacked)} includes {header}"
            if found not in seen and found.is_relative_to(unpacked / "src"):
                seen.add(found)
                waiting.append(found)
    assert len(seen) > 100


def test_a_bundle_runs_its_list_without_what_it_was_made_from(unpacked: Path) -> None:
    manifest = json.loads((unpacked / "manifest.json").read_text())
    for sources in manifest["sources"].values():
        assert sources
        assert all((unpacked / name).is_file() for name in sources)
    for module in manifest["modules"].values():
        assert all(group in manifest["sources"] for group in module["groups"])
    listed = subprocess.run(
        [unpacked / "gpu", "--list"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert listed.stdout.split() == [item.name for item in ITEMS]
    version = subprocess.run([unpacked / "build/bin/lockstep", "version"], check=False, timeout=30)
    assert version.returncode == 0
