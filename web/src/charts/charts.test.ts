import { describe, expect, it } from "vitest";
import { buildLines, type Curve, type LineOptions } from "./lines";
import { smooth } from "./smoothing";

const plain: LineOptions = { axis: "step", smoothing: 0, log: false, band: false };

function curve(
  points: [number, number | "NaN" | "Infinity"][],
  changes: Partial<Curve> = {},
): Curve {
  return {
    label: "rank 0",
    color: 0,
    origin: 0,
    points: points.map(([step, value]) => ({
      step,
      time: new Date(step * 1000).toISOString(),
      value,
    })),
    ...changes,
  };
}

describe("smoothing", () => {
  it("keeps a constant, from the first point on", () => {
    for (const value of smooth([3, 3, 3], 0.9)) expect(value).toBeCloseTo(3);
  });
  it("weighs the average against the new value", () => {
    const [, second] = smooth([0, 1], 0.5);
    expect(second).toBeCloseTo(0.25 / 0.75 + 0.25 / 0.75);
  });
  it("passes over points that are missing or not finite", () => {
    const [, missing, , third] = smooth([1, null, Number.NaN, 1], 0.5);
    expect(missing).toBeNull();
    expect(third).toBeCloseTo(1);
  });
});

describe("lines", () => {
  it("of two curves share one x column", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [2, 3],
        ]),
        curve([[1, 5]]),
      ],
      plain,
    );
    expect(data.x).toEqual([0, 1, 2]);
    expect(data.lines.map((line) => line.values)).toEqual([
      [1, null, 3],
      [null, 5, null],
    ]);
  });
  it("have a hole where the value is not finite", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [1, "NaN"],
          [2, "Infinity"],
        ]),
      ],
      plain,
    );
    expect(data.lines[0]?.values).toEqual([1, null, null]);
    expect(data.holes).toEqual([1, 2]);
  });
  it("on a log scale leave out what it cannot show, which is no hole", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [1, 0],
          [2, -1],
        ]),
      ],
      { ...plain, log: true },
    );
    expect(data.lines[0]?.values).toEqual([1, null, null]);
    expect(data.holes).toEqual([]);
  });
  it("by time and by relative time", () => {
    const at = curve([[10, 1]], { origin: 4000 });
    expect(buildLines([at], { ...plain, axis: "time" }).x).toEqual([10]);
    expect(buildLines([at], { ...plain, axis: "relative" }).x).toEqual([6]);
  });
  it("that are smoothed keep the raw curve behind", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [1, 2],
        ]),
      ],
      { ...plain, smoothing: 0.5 },
    );
    expect(data.lines.map((line) => line.kind)).toEqual(["raw", "line"]);
  });
  it("of many ranks are a mean within a band", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [1, 2],
        ]),
        curve([
          [0, 3],
          [1, 6],
        ]),
      ],
      { ...plain, band: true },
    );
    const values = Object.fromEntries(data.lines.map((line) => [line.kind, line.values]));
    expect(values.low).toEqual([1, 2]);
    expect(values.high).toEqual([3, 6]);
    expect(values.line).toEqual([2, 4]);
  });
  it("of statistics are a line within a band, as the daemon has them", () => {
    const data = buildLines(
      [
        curve([[0, 2]], { statistic: "mean" }),
        curve([[0, 1]], { statistic: "min" }),
        curve([[0, 6]], { statistic: "max" }),
      ],
      { ...plain, band: true },
    );
    const values = Object.fromEntries(data.lines.map((line) => [line.kind, line.values]));
    expect(values).toEqual({ line: [2], low: [1], high: [6] });
  });
  it("of no curve, or of curves without points, are empty", () => {
    expect(buildLines([], plain).x).toEqual([]);
    expect(buildLines([curve([]), curve([])], { ...plain, band: true }).lines).toEqual([]);
  });
  it("go forward only: a step that comes again replaces the points after it", () => {
    const data = buildLines(
      [
        curve([
          [0, 1],
          [2, 2],
          [1, 9],
        ]),
      ],
      plain,
    );
    expect(data.x).toEqual([0, 1]);
    expect(data.lines[0]?.values).toEqual([1, 9]);
  });
});
