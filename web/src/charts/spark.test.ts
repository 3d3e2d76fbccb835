import { expect, it } from "vitest";
import { sparkOf } from "./spark";

it("a curve fills its box, the greatest value at the top", () => {
  expect(sparkOf([0, 5, 10], [1, 3, 2], 100, 20)).toEqual({
    path: "M0 20L50 0L100 10",
    end: [100, 10],
  });
});

it("a value that is not finite leaves a gap", () => {
  expect(sparkOf([0, 1, 2], [1, "NaN", 3], 10, 10)?.path).toBe("M0 10M10 0");
});

it("equal values are a line in the middle, and a single point is at the end", () => {
  expect(sparkOf([0, 1], [4, 4], 10, 10)?.path).toBe("M0 5L10 5");
  expect(sparkOf([7], [4], 10, 10)).toEqual({ path: "M10 5", end: [10, 5] });
  expect(sparkOf([1], ["Infinity"], 10, 10)).toBeNull();
});
