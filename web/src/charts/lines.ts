// From the points of the API to the columns that uPlot draws. Pure.
import { type ApiNumber, toNumber } from "../api/types";
import { smooth } from "./smoothing";

/** `metric:NAME`: the value of another metric at the same step, such as tokens. */
export type XAxis = "step" | "time" | "relative" | `metric:${string}`;

export interface Point {
  step: number;
  time: string;
  value: ApiNumber;
  /** On the axis of a metric, its value. */
  x?: number;
}

/** The metric on the x axis; null: the axis is steps or time. */
export function axisMetric(axis: XAxis): string | null {
  return axis.startsWith("metric:") ? axis.slice("metric:".length) : null;
}

/** Metrics that likely ascend, such as tokens, are offered first as an axis. */
export function axisNames(names: readonly string[]): string[] {
  const isFirst = (name: string) => /token|sample|epoch|flop|examples|seen/i.test(name);
  return [...names.filter(isFirst), ...names.filter((name) => !isFirst(name)).slice(0, 100)];
}

export interface Curve {
  label: string;
  /** Index of a colour of the palette. */
  color: number;
  points: readonly Point[];
  /** Zero of the relative axis, in milliseconds. */
  origin: number;
  /** A statistic over ranks: together they are drawn as a line within its band. */
  statistic?: "mean" | "min" | "max";
}

export interface Line {
  label: string;
  color: number;
  kind: "line" | "raw" | "low" | "high";
  values: (number | null)[];
}

export interface ChartData {
  x: number[];
  lines: Line[];
  /** Where a curve has a value that is not finite. */
  holes: number[];
}

interface Column {
  x: number[];
  y: (number | null)[];
}

export interface LineOptions {
  axis: XAxis;
  smoothing: number;
  log: boolean;
  /** Draws the mean of the curves within the band of their least and greatest values. */
  band: boolean;
}

export function buildLines(curves: readonly Curve[], options: LineOptions): ChartData {
  const holes: number[] = [];
  const columns = curves.map((curve) => readColumn(curve, options, holes));
  if (curves.some((curve) => curve.statistic)) {
    const parts = statisticsOf(curves, columns, options);
    return { ...join(parts), holes: [...new Set(holes)].sort((a, b) => a - b) };
  }
  const banded = options.band && curves.length > 1;
  const parts = banded ? bandOf(columns, options) : linesOf(curves, columns, options);
  return { ...join(parts), holes: [...new Set(holes)].sort((a, b) => a - b) };
}

function readColumn(curve: Curve, options: LineOptions, holes: number[]): Column {
  const column: Column = { x: [], y: [] };
  for (const point of curve.points) {
    const x = xOf(point, curve.origin, options.axis);
    const value = toNumber(point.value);
    if (!Number.isFinite(value)) holes.push(x);
    // A scale may not go back: a step that an attempt repeats is drawn once, at its last value.
    while (column.x.length > 0 && (column.x.at(-1) ?? 0) >= x) {
      column.x.pop();
      column.y.pop();
    }
    column.x.push(x);
    column.y.push(drawable(value, options.log) ? value : null);
  }
  return column;
}

export function xOf(point: Point, origin: number, axis: XAxis): number {
  if (axis === "step") return point.step;
  if (axisMetric(axis) !== null) return point.x ?? Number.NaN;
  const time = Date.parse(point.time);
  return axis === "time" ? time / 1000 : (time - origin) / 1000;
}

function drawable(value: number, log: boolean): boolean {
  return Number.isFinite(value) && (!log || value > 0);
}

type Part = Omit<Line, "values"> & { column: Column };

function linesOf(curves: readonly Curve[], columns: Column[], options: LineOptions): Part[] {
  return curves.flatMap((curve, index) => {
    const column = columns[index];
    if (!column) return [];
    const { label, color } = curve;
    if (options.smoothing <= 0) return [{ label, color, kind: "line" as const, column }];
    const smoothed = { x: column.x, y: smooth(column.y, options.smoothing) };
    return [
      { label, color, kind: "raw" as const, column },
      { label, color, kind: "line" as const, column: smoothed },
    ];
  });
}

const statisticKinds = { mean: "line", min: "low", max: "high" } as const;
/** Lines are drawn in their order: the band, then the mean on it. */
const drawnOrder = ["low", "high", "line"];

function statisticsOf(curves: readonly Curve[], columns: Column[], options: LineOptions): Part[] {
  const parts = curves.map(({ label, color, statistic = "mean" }, index) => {
    const column = columns[index] ?? { x: [], y: [] };
    const smoothed = statistic === "mean" && options.smoothing > 0;
    return {
      label,
      color,
      kind: statisticKinds[statistic],
      column: smoothed ? { x: column.x, y: smooth(column.y, options.smoothing) } : column,
    };
  });
  return parts.sort((a, b) => drawnOrder.indexOf(a.kind) - drawnOrder.indexOf(b.kind));
}

const buckets = 400;

/** Curves have points at different x, so least, greatest and mean are those of stretches of x. */
function bandOf(columns: Column[], options: LineOptions): Part[] {
  const first = Math.min(...columns.map((column) => column.x[0] ?? Number.POSITIVE_INFINITY));
  const last = Math.max(...columns.map((column) => column.x.at(-1) ?? Number.NEGATIVE_INFINITY));
  if (!(last >= first)) return [];
  const width = (last - first) / buckets || 1;
  const found = new Map<
    number,
    { low: number; high: number; sum: number; count: number; x: number }
  >();
  for (const { x, y } of columns) {
    x.forEach((at, index) => {
      const value = y[index];
      if (value === null || value === undefined) return;
      const key = Math.floor((at - first) / width);
      const bucket = found.get(key);
      if (!bucket) found.set(key, { low: value, high: value, sum: value, count: 1, x: at });
      else {
        bucket.low = Math.min(bucket.low, value);
        bucket.high = Math.max(bucket.high, value);
        bucket.sum += value;
        bucket.count += 1;
        bucket.x = Math.max(bucket.x, at);
      }
    });
  }
  const sorted = [...found.values()].sort((left, right) => left.x - right.x);
  const x = sorted.map((bucket) => bucket.x);
  const mean = smooth(
    sorted.map((bucket) => bucket.sum / bucket.count),
    options.smoothing,
  );
  return [
    { label: "least", color: 0, kind: "low", column: { x, y: sorted.map((bucket) => bucket.low) } },
    {
      label: "greatest",
      color: 0,
      kind: "high",
      column: { x, y: sorted.map((bucket) => bucket.high) },
    },
    { label: "mean", color: 0, kind: "line", column: { x, y: mean } },
  ];
}

/** One x column for all lines; a line has null where it has no point. */
function join(parts: Part[]): { x: number[]; lines: Line[] } {
  const x = [...new Set(parts.flatMap((part) => part.column.x))].sort((a, b) => a - b);
  const at = new Map(x.map((value, index) => [value, index]));
  const lines = parts.map(({ column, ...rest }) => {
    const values = new Array<number | null>(x.length).fill(null);
    column.x.forEach((value, index) => {
      values[at.get(value) ?? 0] = column.y[index] ?? null;
    });
    return { ...rest, values };
  });
  return { x, lines };
}
