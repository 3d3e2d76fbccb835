// Events of a run on the axes of its charts. Pure.
import { axisMetric, type Curve, type Point, type XAxis, xOf } from "./lines";

export type MarkKind = "attempt" | "checkpoint" | "failure" | "finding";

/** An event, at a time in milliseconds and, if that is known, a step. */
export interface Mark {
  kind: MarkKind;
  time: number;
  step?: number;
  label: string;
}

export interface PlacedMark {
  kind: MarkKind;
  x: number;
  label: string;
}

/** By step and by a metric, an event is where the first curve was at its time. */
export function placeMarks(
  marks: readonly Mark[],
  curves: readonly Curve[],
  axis: XAxis,
): PlacedMark[] {
  const [curve] = curves;
  if (!curve) return [];
  return marks.flatMap(({ kind, label, time, step }) => {
    const x = place(time, step, curve, axis);
    return x === null || Number.isNaN(x) ? [] : [{ kind, label, x }];
  });
}

function place(
  time: number,
  step: number | undefined,
  { points, origin }: Curve,
  axis: XAxis,
): number | null {
  if (axis === "time") return time / 1000;
  if (axis === "relative") return (time - origin) / 1000;
  if (axis === "step" && step !== undefined) return step;
  const isPast = (point: Point) =>
    step === undefined ? Date.parse(point.time) >= time : point.step >= step;
  // Points by a metric have no time.
  if (step === undefined && axisMetric(axis) !== null) return null;
  const point = firstPast(points, isPast);
  return point ? xOf(point, origin, axis) : null;
}

/** Steps and times ascend. An event after the last point is at the last point. */
function firstPast(points: readonly Point[], isPast: (point: Point) => boolean): Point | null {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const point = points[middle];
    if (point && isPast(point)) high = middle;
    else low = middle + 1;
  }
  return points[low] ?? points.at(-1) ?? null;
}
