"""Scripts of a page that say when its table answers a click, and when its charts have curves.

They are the same for each page, and read it by selectors of CSS. A page looks at each frame, and
the time is that of the first task after a frame in which the condition holds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

IN_VIEW = """
const inView = (element) => {
  const { top, bottom, width } = element.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < innerHeight;
};
const eachFrame = (look) => {
  const check = () => {
    if (look()) setTimeout(() => { window.measured = performance.now(); });
    else requestAnimationFrame(check);
  };
  addEventListener("DOMContentLoaded", () => requestAnimationFrame(check));
};
"""
# Clicks a box once a row with text is in view; then another number of boxes is chosen.
TABLE = """
let before = -1;
eachFrame(() => {
  const chosen = document.querySelectorAll(page.chosen).length;
  if (before >= 0) return chosen !== before;
  const shown = [...document.querySelectorAll(page.rows)].filter(inView);
  const box = document.querySelector(page.box);
  if (!box || !shown.some((row) => row.innerText.trim())) return false;
  before = chosen;
  box.click();
  return false;
});
"""
# A curve is a path, or a canvas whose pixels are not all equal. A worker may draw the canvas.
CHARTS = """
const copy = new OffscreenCanvas(1, 1);
const hasCurve = (line) => {
  if (!(line instanceof HTMLCanvasElement)) return (line.getAttribute("d") ?? "").length > 10;
  if (!line.width || !line.height) return false;
  copy.width = line.width;
  copy.height = line.height;
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(line, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  const pixels = new Uint32Array(data.buffer);
  return pixels.some((pixel) => pixel !== pixels[0]);
};
eachFrame(() => {
  const cells = [...document.querySelectorAll(page.cells)].filter(inView);
  window.measuredCharts = cells.length;
  return (
    cells.length > 0 &&
    cells.every((cell) => [...cell.querySelectorAll(page.lines)].some(hasCurve))
  );
});
"""


@dataclass(frozen=True)
class Table:
    """Selectors of the rows of runs, of the box of a row, and of the boxes that are chosen."""

    rows: str
    box: str
    chosen: str

    def script(self) -> str:
        return _script(TABLE, self)


@dataclass(frozen=True)
class Charts:
    """Selectors of the charts, and of the curves in a chart."""

    cells: str
    lines: str

    def script(self) -> str:
        return _script(CHARTS, self)


def _script(body: str, page: Table | Charts) -> str:
    return f"((page) => {{ {IN_VIEW} {body} }})({json.dumps(asdict(page))});"
