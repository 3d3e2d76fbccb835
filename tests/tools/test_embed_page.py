"""tools/embed_page.py: the table of the page's files that the program contains."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

TOOL = ROOT / "tools" / "embed_page.py"


def embed(dist: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), str(dist), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


def make_dist(folder: Path) -> Path:
    dist = folder / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<p>" + "lockstep " * 100)
    (dist / "assets" / "app-1.js").write_text("let a = 1;\n" * 100)
    (dist / "logo.png").write_bytes(hashlib.sha256(b"noise").digest())
    return dist


def included(folder: Path) -> dict[str, bytes]:
    """The bytes of each path, as the program sends them."""
    source = (folder / "page_files.cc").read_text()
    names = re.findall(r'\.incbin \\"([^"]+)\\"', source)
    paths = re.findall(r'\{"([^"]+)", "[^"]+", "[0-9a-f]{32}"', source)
    return {path: Path(name).read_bytes() for path, name in zip(paths, names, strict=True)}


def test_each_file_is_in_the_table_compressed_where_that_is_shorter(tmp_path: Path) -> None:
    dist, folder = make_dist(tmp_path), tmp_path / "made"
    assert embed(dist, folder).returncode == 0
    files = included(folder)
    assert sorted(files) == ["assets/app-1.js", "index.html", "logo.png"]
    for path in ("index.html", "assets/app-1.js"):
        assert gzip.decompress(files[path]) == (dist / path).read_bytes()
    assert files["logo.png"] == (dist / "logo.png").read_bytes()
    source = (folder / "page_files.cc").read_text()
    assert '"index.html", "text/html; charset=utf-8"' in source
    assert '"assets/app-1.js", "text/javascript; charset=utf-8"' in source


def test_the_same_files_make_the_same_source_and_write_nothing_again(tmp_path: Path) -> None:
    dist, folder = make_dist(tmp_path), tmp_path / "made"
    embed(dist, folder)
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert embed(dist, folder).returncode == 0
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_a_changed_file_has_another_digest_and_the_old_content_goes(tmp_path: Path) -> None:
    dist, folder = make_dist(tmp_path), tmp_path / "made"
    embed(dist, folder)
    before = (folder / "page_files.cc").read_text()
    (dist / "index.html").write_text("<p>changed")
    assert embed(dist, folder).returncode == 0
    assert (folder / "page_files.cc").read_text() != before
    assert len(list(folder.iterdir())) == 4
    assert included(folder)["index.html"] == b"<p>changed"


def test_without_a_page_the_table_is_empty(tmp_path: Path) -> None:
    assert embed(tmp_path / "dist", tmp_path / "made").returncode == 0
    source = (tmp_path / "made" / "page_files.cc").read_text()
    assert "return {};" in source and "incbin" not in source


def test_a_file_of_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    dist = make_dist(tmp_path)
    (dist / "data.xyz").write_text("?")
    done = embed(dist, tmp_path / "made")
    assert done.returncode != 0
    assert "data.xyz" in done.stderr and "add it there" in done.stderr
