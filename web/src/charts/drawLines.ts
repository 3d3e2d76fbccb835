// How the lines of a chart are drawn: smooth ones as paths of uPlot, noisy ones and the band over
// ranks as one rectangle in each column of pixels, which is many times as fast (columns.ts).
import uPlot from "uplot";
import { type Columns, columnsOf, meanHeight } from "./columns";
import type { Line } from "./lines";

/** In pixels of CSS: a line that is higher in its columns covers them, as a noisy curve does. */
const noisyHeight = 4;

export interface Stroke {
  color: string;
  width: number;
  alpha: number;
}

/** Draws the lines of one chart. Its series are these lines, in this order. */
export class LinePainter {
  private readonly found: (Columns | null)[] = [];
  private readonly smooth = uPlot.paths.linear?.();

  constructor(
    private readonly lines: readonly Line[],
    private readonly bandColor: string,
  ) {}

  /** Paths of a smooth line for uPlot; null: draw() draws it. */
  paths(plot: uPlot, series: number, first: number, last: number): uPlot.Series.Paths | null {
    const kind = this.lines[series - 1]?.kind;
    const columns = columnsInView(plot, series, first, last);
    const isEdge = kind === "low" || kind === "high";
    const isNoisy = meanHeight(columns) >= noisyHeight * uPlot.pxRatio;
    this.found[series] = isEdge || isNoisy ? columns : null;
    return isEdge || isNoisy ? null : (this.smooth?.(plot, series, first, last) ?? null);
  }

  /** The band comes with the latter of its edges, which are before the line within it. */
  draw(plot: uPlot, series: number, { color, width, alpha }: Stroke): void {
    const columns = this.found[series];
    const kind = this.lines[series - 1]?.kind;
    if (!columns) return;
    if (kind === "low") return;
    const below = kind === "high" ? this.found[1 + this.lines.findIndex(isLow)] : columns;
    if (!below) return;
    plot.ctx.save();
    plot.ctx.globalAlpha = kind === "high" ? 1 : alpha;
    plot.ctx.fillStyle = kind === "high" ? this.bandColor : color;
    const thick = kind === "high" ? 0 : width * uPlot.pxRatio;
    fillColumns(plot, columns.top, below.bottom, thick);
    plot.ctx.restore();
  }
}

function isLow({ kind }: Line): boolean {
  return kind === "low";
}

function columnsInView(plot: uPlot, series: number, first: number, last: number): Columns {
  return uPlot.orient(
    plot,
    series,
    (_, dataX, dataY, scaleX, scaleY, xOf, yOf, left, top, width, height) => {
      const x: number[] = [];
      const y: number[] = [];
      for (let index = first; index <= last; index += 1) {
        const value = dataY[index];
        if (value == null) continue;
        x.push(xOf(dataX[index] as number, scaleX, width, left));
        y.push(yOf(value, scaleY, height, top));
      }
      return columnsOf(x, y, left, width);
    },
  );
}

/** `thick`: pixels of the stroke of a line; 0: the area between tops and bottoms. */
function fillColumns(plot: uPlot, tops: Float64Array, bottoms: Float64Array, thick: number): void {
  const { left, top, height } = plot.bbox;
  const width = Math.max(1, thick);
  const first = left - (width - 1) / 2;
  for (let column = 0; column < tops.length; column += 1) {
    const from = Math.max(top, (tops[column] as number) - thick / 2);
    const to = Math.min(top + height, (bottoms[column] as number) + thick / 2);
    if (to > from) plot.ctx.fillRect(first + column, from, width, to - from);
  }
}
