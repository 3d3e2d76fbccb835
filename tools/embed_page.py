"""Writes C++ that puts the files of the web page into the lockstep program.

    embed_page.py DIST FOLDER

DIST is web/dist. If it does not exist, the program has no page. FOLDER gets page_files.cc, which is
a table of the files, and their compressed content, which the assembler includes. A file that has
not changed is not written again, so that nothing is compiled again.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
DIGEST_DIGITS = 32
SOURCE = "page_files.cc"


class PageFile(NamedTuple):
    path: str
    content_type: str
    digest: str
    content: bytes
    is_gzip: bool


def page_file(file: Path, dist: Path) -> PageFile:
    path = file.relative_to(dist).as_posix()
    if file.suffix not in TYPES:
        raise SystemExit(
            f"{file} has a type that {Path(__file__).name} does not know: add it there"
        )
    if not path.isascii() or set(path) & set('"\\\n'):
        raise SystemExit(f"{file}: a name of the page has plain characters only")
    plain = file.read_bytes()
    packed = gzip.compress(plain, compresslevel=9, mtime=0)
    is_gzip = len(packed) < len(plain)
    content = packed if is_gzip else plain
    digest = hashlib.sha256(plain).hexdigest()[:DIGEST_DIGITS]
    return PageFile(path, TYPES[file.suffix], digest, content, is_gzip)


def files_of(dist: Path) -> list[PageFile]:
    if not (dist / "index.html").is_file():
        return []
    return [page_file(file, dist) for file in sorted(dist.rglob("*")) if file.is_file()]


def source_of(files: list[PageFile], folder: Path) -> str:
    """The content is in .rodata: it is a part of the program's file, and read when it is sent."""
    lines = ["// Made by tools/embed_page.py.", '#include "apps/page/embedded_page.h"', ""]
    if files:
        lines += ["asm(", '    ".pushsection .rodata\\n"']
        for number, file in enumerate(files):
            lines += [
                f'    "lockstep_page_{number}:\\n"',
                f'    ".incbin \\"{folder / name_of(file)}\\"\\n"',
                f'    "lockstep_page_end_{number}:\\n"',
            ]
        lines += ['    ".popsection\\n");', "", 'extern "C" {']
        lines += [
            f"extern const char lockstep_page_{n}[], lockstep_page_end_{n}[];"
            for n in range(len(files))
        ]
        lines += ["}", ""]
    lines += ["namespace lockstep::cli {", "", "server::PageFiles embedded_page() {"]
    if files:
        lines += ["  static const server::PageFile files[] = {"]
        for number, file in enumerate(files):
            lines += [
                f'      {{"{file.path}", "{file.content_type}", "{file.digest}",',
                f"       {{lockstep_page_{number}, lockstep_page_end_{number}}}, "
                f"{str(file.is_gzip).lower()}}},",
            ]
        lines += ["  };", "  return files;"]
    else:
        lines += ["  return {};"]
    return "\n".join([*lines, "}", "", "}  // namespace lockstep::cli", ""])


def name_of(file: PageFile) -> str:
    return hashlib.sha256(file.content).hexdigest()[:DIGEST_DIGITS]


def write_changed(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        path.write_bytes(content)


def main() -> None:
    dist, folder = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    files = files_of(dist)
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        write_changed(folder / name_of(file), file.content)
    write_changed(folder / SOURCE, source_of(files, folder).encode())
    kept = {SOURCE, *map(name_of, files)}
    for old in folder.iterdir():
        if old.name not in kept:
            old.unlink()


if __name__ == "__main__":
    main()
