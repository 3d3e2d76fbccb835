import { type CurveView, toNumber } from "../api/types";
import type { Curve, Point } from "./lines";

type Part = Pick<CurveView, "x" | "values">;

/** A curve of the API whose x is a metric, as a line within its band over ranks. Pure. */
export function bandCurves(curve: CurveView, label: string, color: number): Curve[] {
  const points = (part: Part, steps: readonly number[] = []): Point[] =>
    part.x.map((x, index) => ({
      step: steps[index] ?? 0,
      time: "",
      value: part.values[index] ?? "NaN",
      x: toNumber(x),
    }));
  const line: Curve = { label, color, origin: 0, points: points(curve, curve.steps) };
  if (curve.low.x.length === 0) return [line];
  return [
    { ...line, statistic: "mean" },
    { ...line, label: "least", points: points(curve.low), statistic: "min" },
    { ...line, label: "greatest", points: points(curve.high), statistic: "max" },
  ];
}
