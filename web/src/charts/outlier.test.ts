import { expect, it } from "vitest";
import { outlierOf } from "./outlier";

type Series = Parameters<typeof outlierOf>[0][number];

function series(statistic: Series["statistic"], value: number, ranks: number[] = []): Series {
  const points = [{ step: 1, time: "2026-01-01T00:00:00Z", value }];
  return { statistic, points, point_ranks: ranks } as unknown as Series;
}

it("is the rank that stays on the far side of the mean", () => {
  const high = [series("mean", 1), series("min", 0.9, [0, 1]), series("max", 2, [3, 3])];
  expect(outlierOf(high)).toEqual({ rank: 3, side: "highest" });
  const low = [series("mean", 1), series("min", 0, [2, 2]), series("max", 1.1, [0, 1])];
  expect(outlierOf(low)).toEqual({ rank: 2, side: "lowest" });
});

it("is none if the ranks change, are on both sides alike, or are equal", () => {
  const changes = [series("mean", 1), series("min", 0.9), series("max", 2, [0, 1, 2, 3])];
  expect(outlierOf(changes)).toBeNull();
  const alike = [series("mean", 1), series("min", 0, [0, 0]), series("max", 2, [3, 3])];
  expect(outlierOf(alike)).toBeNull();
  const equal = [series("mean", 1), series("min", 1, [0]), series("max", 1, [0])];
  expect(outlierOf(equal)).toBeNull();
  expect(outlierOf([])).toBeNull();
});
