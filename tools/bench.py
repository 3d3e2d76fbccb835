"""Runs one benchmark and shows its results: `./dev bench [NAME [--json FILE] [--svg FILE] ...]`.

A benchmark is a program bench/FOLDER/NAME.py. It prints one JSON object a line, a result each:

  bench, case    what was measured; parameters (ranks, bytes, ...) are fields of their own, and so
                 are further readings, which are numbers with a decimal point
  unit           of ours, peer and limit
  ours, peer     our reading and that of peer_name, taken in the same run
  ratio          how much better ours is than the peer's: over 1 is better, whatever the unit
  limit          what the hardware allows, in the same unit; of_limit: the share that we reach
  bar            the ratio that we have set ourselves

Only bench, case, unit and ours must be there (of a peer's row: peer instead of ours): what was not
measured is left out, never 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

import bench_picture

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = ("bench", "case", "unit")
KNOWN = (*REQUIRED, "ours", "peer", "peer_name", "ratio", "limit", "of_limit", "bar")
COLUMNS = "{:<74} {:>16} {:>24} {:>7} {:>9}  {:<10}  {}"

Row = dict[str, Any]


def benchmarks() -> dict[str, Path]:
    """Every benchmark's program, by its name."""
    return {path.stem: path for path in sorted((ROOT / "bench").glob("[a-z]*/[a-z]*.py"))}


def summary(program: Path) -> str:
    """The first line of its documentation."""
    first = program.read_text().lstrip().splitlines()[:1]
    return first[0].strip('"# ') if first else ""


def search_path(program: Path) -> str:
    """PYTHONPATH of a benchmark: Lockstep's package, shared modules, and those of its folder."""
    return os.pathsep.join(map(str, (ROOT / "build/python", ROOT / "bench", program.parent)))


def parse(line: str) -> Row:
    """A result line; ValueError names its error."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")
    readings = ("ours",) if "peer" not in row else ()
    if missing := [name for name in (*REQUIRED, *readings) if name not in row]:
        raise ValueError(f"lacks {', '.join(missing)}")
    return row


def number(value: object) -> str:
    """Three significant digits, without an exponent where people read numbers."""
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    if value == 0 or not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    decimals = next((d for limit, d in ((100, 0), (10, 1), (1, 2)) if abs(value) >= limit), 4)
    return f"{value:.{decimals}f}"


def columns(row: Row) -> list[str]:
    others = {key: value for key, value in row.items() if key not in KNOWN}
    readings = {key: value for key, value in others.items() if isinstance(value, float)}
    parameters = [f"{key}={value}" for key, value in others.items() if key not in readings]
    peer = f"{number(row['peer'])} {row.get('peer_name', '')}" if "peer" in row else "-"
    of_limit = f"{100 * row['of_limit']:.0f} %" if row.get("of_limit") is not None else "-"
    return [
        " ".join([row["case"], *parameters]),
        f"{number(row['ours'])} {row['unit']}" if "ours" in row else "-",
        peer.strip(),
        number(row.get("ratio")),
        of_limit,
        verdict(row),
        " ".join(f"{key}={number(value)}" for key, value in readings.items()),
    ]


def verdict(row: Row) -> str:
    ratio, bar = row.get("ratio"), row.get("bar")
    if bar is None:
        return ""
    if ratio is None:
        return f"bar {number(bar)}, not measured"
    return f"{'meets' if ratio >= bar else 'BELOW'} {number(bar)}"


def run(name: str, arguments: list[str], rows: list[Row], json_file: TextIO | None) -> int:
    """Its exit status; its results are added to `rows` as they come."""
    program = benchmarks()[name]
    process = subprocess.Popen(
        [sys.executable, str(program), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": search_path(program), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        return follow(process, name, rows, json_file)
    except SystemExit:
        process.terminate()
        raise
    finally:
        process.wait()  # also after Ctrl-C, which the benchmark got too: it may have to clean up


def show_options(program: Path) -> int:
    """Prints the help of the benchmark itself."""
    environment = os.environ | {"PYTHONPATH": search_path(program)}
    return subprocess.run([sys.executable, str(program), "--help"], env=environment).returncode


def follow(
    process: subprocess.Popen[str], name: str, rows: list[Row], json_file: TextIO | None
) -> int:
    print(COLUMNS.format("case", "ours", "peer", "ratio", "of limit", "bar", "besides"), flush=True)
    assert process.stdout is not None
    for line in filter(str.strip, process.stdout):
        try:
            row = parse(line)
        except ValueError as error:
            process.kill()
            print(f"bench {name}: its line {error}: {line.strip()[:200]}", file=sys.stderr)
            return 1
        print(COLUMNS.format(*columns(row)), flush=True)
        rows.append(row)
        if json_file:
            print(json.dumps(row), file=json_file, flush=True)
    if status := process.wait():
        print(f"bench {name} ended with status {status}", file=sys.stderr)
        return 1
    if not rows:
        print(f"bench {name} printed no result", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    known = benchmarks()
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="Runs one benchmark.", add_help=False
    )
    parser.add_argument("name", nargs="?", help="without it, the benchmarks are listed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one object a line")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw bandwidth over bytes")
    options, arguments = parser.parse_known_args()
    if wants_help := bool({"-h", "--help"} & set(arguments)):
        parser.print_help()
        print()
    if options.name is None:
        print("benchmarks; run one with ./dev bench NAME [--json FILE] [--svg FILE]:")
        for folder, programs in groupby(known.values(), lambda program: program.parent.name):
            print(f"\n{folder}:")
            print("".join(f"  {each.stem:<16} {summary(each)}\n" for each in programs), end="")
        return 0
    if options.name not in known:
        print(f"no benchmark '{options.name}'; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    if wants_help:
        return show_options(known[options.name])
    with contextlib.ExitStack() as stack:
        json_file = stack.enter_context(options.json.open("w")) if options.json else None
        rows: list[Row] = []
        status = run(options.name, arguments, rows, json_file)
    if options.svg and not status:
        try:
            bench_picture.draw(rows, options.svg)
        except (ValueError, subprocess.CalledProcessError) as error:
            print(f"nothing is drawn: {error}", file=sys.stderr)
            return 1
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
