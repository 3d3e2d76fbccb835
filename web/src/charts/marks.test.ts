import { expect, it } from "vitest";
import { bandCurves } from "./bandCurves";
import type { Curve } from "./lines";
import { type Mark, placeMarks } from "./marks";

const at = (second: number) => new Date(1_000_000 + second * 1000).toISOString();
const curve: Curve = {
  label: "loss",
  color: 0,
  origin: 1_000_000,
  points: [0, 10, 20, 30].map((step) => ({ step, time: at(step / 10), value: 1, x: step * 512 })),
};
const attempt: Mark = { kind: "attempt", time: 1_001_500, label: "attempt 2 starts" };
const checkpoint: Mark = { kind: "checkpoint", time: 1_002_000, step: 18, label: "of 18" };

function xs(axis: Parameters<typeof placeMarks>[2], ...marks: Mark[]): number[] {
  return placeMarks(marks, [curve], axis).map(({ x }) => x);
}

it("an event without a step is where the curve was at its time", () => {
  expect(xs("step", attempt)).toEqual([20]);
  expect(xs("relative", attempt)).toEqual([1.5]);
  expect(xs("time", attempt)).toEqual([1001.5]);
});

it("a checkpoint is at its own step, and by a metric at the metric's value there", () => {
  expect(xs("step", checkpoint)).toEqual([18]);
  expect(xs("metric:tokens", checkpoint)).toEqual([20 * 512]);
});

it("an event that has no place on the axis is left out", () => {
  expect(xs("metric:tokens", attempt)).toEqual([]);
  expect(placeMarks([attempt], [], "step")).toEqual([]);
});

it("an event after the last point is at the last point", () => {
  expect(xs("step", { ...attempt, time: 1_999_000 })).toEqual([30]);
});

it("a curve by a metric has a band where several ranks logged it", () => {
  const view = {
    run: "demo/1",
    known: true,
    metric: "loss",
    aggregate: true,
    x: [512, 1024],
    values: [2, 1],
    steps: [1, 2],
    total: 2,
    downsampled: false,
    low: { x: [512], values: [1.5] },
    high: { x: [512], values: [2.5] },
  };
  const curves = bandCurves(view, "loss", 3);
  expect(curves.map(({ statistic }) => statistic)).toEqual(["mean", "min", "max"]);
  expect(curves[0]?.points[1]).toMatchObject({ step: 2, x: 1024, value: 1 });
  const none = { x: [], values: [] };
  expect(bandCurves({ ...view, low: none, high: none }, "loss", 3)).toHaveLength(1);
});
