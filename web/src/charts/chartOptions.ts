// How a chart looks and reacts, as options of uPlot.
import type uPlot from "uplot";
import { formatSecondsTick, formatTick } from "../text/format";
import { LinePainter, type Stroke } from "./drawLines";
import type { ChartData, Line, XAxis } from "./lines";
import type { MarkKind, PlacedMark } from "./marks";
import type { SharedZoom, Zoom } from "./zoom";

export interface Look {
  height: number;
  axis: XAxis;
  log: boolean;
  /** Charts with the same key share their hover. */
  syncKey: string;
  tick: (value: number) => string;
  /** Ticks of bytes are powers of two apart, all others round numbers. */
  binary: boolean;
}

interface Live {
  current: {
    data: ChartData;
    marks: readonly PlacedMark[];
    zoom: SharedZoom;
    onHover: (index: number | null, mark: PlacedMark | null) => void;
  };
}

export const paletteSize = 10;

export interface Colors {
  palette: string[];
  grid: string;
  text: string;
  faint: string;
  bad: string;
  good: string;
  warn: string;
  font: string;
}

/** uPlot draws on a canvas, which knows no variables of CSS. */
export function readColors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  return {
    palette: Array.from({ length: paletteSize }, (_, index) => token(`--chart-${index + 1}`)),
    grid: token("--grid"),
    text: token("--muted"),
    faint: token("--border-strong"),
    bad: token("--bad"),
    good: token("--good"),
    warn: token("--warn"),
    font: `11px ${token("--font")}`,
  };
}

export function optionsOf(look: Look, width: number, colors: Colors, live: Live): uPlot.Options {
  const { lines } = live.current.data;
  const strokes = lines.map((line) => strokeOf(line, colors));
  const low = lines.find((line) => line.kind === "low");
  const painter = new LinePainter(lines, `${colors.palette[(low?.color ?? 0) % paletteSize]}30`);
  return {
    width: Math.max(width, 50),
    height: look.height,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: look.syncKey, scales: ["x", null] },
      drag: { x: true, y: false, setScale: false },
      y: false,
      points: { size: 6 },
      dataIdx: nearestPoint,
      bind: { dblclick: () => () => showAll(live) },
    },
    scales: {
      x: {
        time: look.axis === "time",
        range: (_, min, max) => xRange(min, max, live.current.zoom.get()),
      },
      y: look.log ? { distr: 3 } : { range: yRange },
    },
    series: [
      {},
      ...lines.map((line, index) => ({
        ...seriesOf(line, strokes[index]),
        paths: (...asked: Parameters<uPlot.Series.PathBuilder>) => painter.paths(...asked),
      })),
    ],
    axes: axesOf(look, colors),
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const from = plot.posToVal(plot.select.left, "x");
          const to = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          live.current.zoom.set([from, to]);
        },
      ],
      setCursor: [
        (plot) => {
          const { left = -1, idx } = plot.cursor;
          if (left < 0) live.current.onHover(null, null);
          else live.current.onHover(idx ?? null, markNear(plot, live.current.marks, left));
        },
      ],
      drawSeries: [
        (plot, series) => {
          const stroke = strokes[series - 1];
          if (stroke) painter.draw(plot, series, stroke);
        },
      ],
      draw: [(plot) => drawMarks(plot, live.current, colors)],
    },
  };
}

function showAll(live: Live): null {
  live.current.zoom.set(null);
  return null;
}

function strokeOf(line: Line, colors: Colors): Stroke {
  const color = colors.palette[line.color % paletteSize] ?? "";
  return line.kind === "raw" ? { color, width: 1, alpha: 0.22 } : { color, width: 1.5, alpha: 1 };
}

function seriesOf(line: Line, stroke: Stroke | undefined): uPlot.Series {
  const single = line.values.filter((value) => value !== null).length === 1;
  const points = { show: single && line.kind === "line", size: 6 };
  return {
    stroke: stroke?.color,
    width: stroke?.width,
    alpha: stroke?.alpha,
    spanGaps: true,
    points,
  };
}

function axesOf(look: Look, colors: Colors): uPlot.Axis[] {
  const shared = {
    stroke: colors.text,
    font: colors.font,
    grid: { stroke: colors.grid, width: 1 },
    ticks: { stroke: colors.grid, width: 1, size: 4 },
  };
  const isTime = look.axis === "relative";
  const xValues = isTime ? formatSecondsTick : formatTick;
  return [
    {
      ...shared,
      size: 28,
      gap: 4,
      space: 70,
      grid: { show: false },
      ...(look.axis === "time"
        ? {}
        : { values: (_: uPlot, ticks: number[]) => ticks.map(xValues) }),
      ...(isTime ? { incrs: timeSteps } : {}),
    },
    {
      ...shared,
      size: 58,
      gap: 6,
      space: 36,
      ...(look.binary ? { incrs: powersOfTwo } : {}),
      values: (_: uPlot, ticks: (number | null)[]) =>
        ticks.map((tick) => (tick === null ? "" : look.tick(tick))),
    },
  ];
}

const powersOfTwo = Array.from({ length: 60 }, (_, power) => 2 ** power);
const timeSteps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
].concat([1, 2, 5, 7, 14, 30, 60].map((days) => days * 86400));

function xRange(min: number | null, max: number | null, zoom: Zoom): [number, number] {
  if (zoom) return [...zoom];
  if (min === null || max === null) return [0, 1];
  return min === max ? [min - 1, max + 1] : [min, max];
}

function yRange(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  if (min === 0 && max === 0) return [0, 1];
  if (min === max) {
    const pad = Math.abs(min) * 0.1 || 1;
    return [min - pad, max + pad];
  }
  const pad = (max - min) * 0.06;
  return [min >= 0 && min - pad < 0 ? 0 : min - pad, max + pad];
}

/** A line may have no point at the hovered x, so its nearest one is shown. */
function nearestPoint(plot: uPlot, series: number, index: number): number {
  const values = plot.data[series];
  if (!values || values[index] != null) return index;
  for (let far = 1; far < 200; far += 1) {
    if (values[index - far] != null) return index - far;
    if (values[index + far] != null) return index + far;
  }
  return index;
}

/** The mark within a few pixels of the pointer, the nearest one first. */
function markNear(plot: uPlot, marks: readonly PlacedMark[], left: number): PlacedMark | null {
  let near: PlacedMark | null = null;
  let least = 6;
  for (const mark of marks) {
    const far = Math.abs(plot.valToPos(mark.x, "x") - left);
    if (far < least) [near, least] = [mark, far];
  }
  return near;
}

const dashes: Record<MarkKind, number[]> = {
  checkpoint: [2, 4],
  attempt: [5, 4],
  failure: [5, 4],
  finding: [1, 3],
};

function drawMarks(plot: uPlot, { marks, data }: Live["current"], colors: Colors): void {
  const { ctx, bbox } = plot;
  const strokes: Record<MarkKind, string> = {
    attempt: colors.text,
    checkpoint: colors.good,
    failure: colors.bad,
    finding: colors.warn,
  };
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const x = plot.valToPos(mark.x, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = strokes[mark.kind];
    ctx.setLineDash(dashes[mark.kind]);
    ctx.globalAlpha = mark.kind === "checkpoint" ? 0.6 : 0.9;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
  ctx.fillStyle = colors.bad;
  const size = 4 * devicePixelRatio;
  for (const hole of data.holes) {
    const x = plot.valToPos(hole, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const base = bbox.top + bbox.height;
    ctx.beginPath();
    ctx.moveTo(x - size, base);
    ctx.lineTo(x + size, base);
    ctx.lineTo(x, base - size * 1.6);
    ctx.fill();
  }
  ctx.restore();
}
