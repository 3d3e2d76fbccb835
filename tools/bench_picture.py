"""Draws the results of a benchmark over bytes, for `./dev bench NAME --svg FILE`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "bench/picture-requirements.txt"

Row = dict[str, Any]
Line = dict[int, float]  # GB/s by bytes

MICROSECONDS = 1e-6
COLORS = {
    "zero-copy": "#c1272d",
    "staged": "#e8923a",
    "limit": "#999999",
    "open_mpi": "#2563a8",
    "mpich": "#5aa02c",
    "gloo": "#7a4fa3",
}


def install() -> None:
    """Installs the plotting library, which only this program needs, into this environment."""
    if importlib.util.find_spec("matplotlib") is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "-r", str(PACKAGES)]
        subprocess.run(pip, check=True)


def lines_of(rows: list[Row]) -> dict[str, dict[str, Line]]:
    """Bytes a second of the buffer, in GB/s: by panel ("all_reduce, 2 ranks"), by contestant."""
    panels: dict[str, dict[str, Line]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["unit"] != "us" or not {"bytes", "ranks", "path"} <= row.keys():
            continue
        hosts = row.get("hosts", 1)
        where = f", {hosts} hosts" if hosts > 1 else ""
        panel = panels[f"{row['case']}, {row['ranks']} ranks{where}"]
        for who, microseconds in _times(row):
            panel[who][row["bytes"]] = row["bytes"] / (microseconds * MICROSECONDS) / 1e9
    return panels


def _times(row: Row) -> Iterator[tuple[str, float]]:
    yield row["path"], row["ours"]
    for who in COLORS:
        if isinstance(row.get(who), float):
            yield who, row[who]


def size_text(size: int) -> str:
    for unit, bytes_of_unit in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % bytes_of_unit == 0:
            return f"{size // bytes_of_unit} {unit}"
    return str(size)


def draw(rows: list[Row], svg: Path) -> None:
    """ValueError when the rows have nothing to draw."""
    panels = lines_of(rows)
    if not panels:
        raise ValueError("no row has bytes, ranks, a path and a time")
    install()
    import matplotlib  # type: ignore[import-not-found, unused-ignore] # installed just now

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lockstep"})
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    width = min(2, len(panels))
    height = -(-len(panels) // width)
    figure, places = pyplot.subplots(
        height, width, figsize=(5.4 * width, 3.6 * height), squeeze=False, layout="constrained"
    )
    for place in places.flat[len(panels) :]:
        place.set_visible(False)
    for place, (title, lines) in zip(places.flat, panels.items(), strict=False):
        for who in sorted(lines, key=list(COLORS).index):
            points = sorted(lines[who].items())
            place.plot(
                *zip(*points, strict=True),
                label=who.replace("_", " "),
                color=COLORS[who],
                marker="o",
                markersize=3,
                linewidth=2 if who in ("zero-copy", "staged") else 1.2,
            )
        place.set(title=title, xlabel="bytes of the buffer", ylabel="GB/s")
        place.set_xscale("log", base=2)
        sizes = sorted({size for line in lines.values() for size in line})
        place.set_xticks(sizes[::2], [size_text(size) for size in sizes[::2]])
        place.set_yscale("log")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    figure.savefig(svg, metadata={"Date": None})
