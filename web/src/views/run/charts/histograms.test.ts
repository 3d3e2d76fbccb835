import { expect, it } from "vitest";
import type { LoggedHistogram } from "../../../api/types";
import { fullness, histogramsByName, mapPaths, scaleOf, stepAt, stepPlace } from "./histograms";

function logged(name: string, step: number, rank: number): LoggedHistogram {
  const time = "2026-01-01T00:00:00Z";
  return { name, step, rank, time, edges: [0, 1, 2], counts: [1, 3] };
}

function bins(step: number, edges: number[], counts: number[]) {
  return { step, edges, counts };
}

it("histograms are by name and rank, and the search selects names", () => {
  const list = [logged("grad/b", 1, 1), logged("grad/b", 1, 0), logged("w", 1, 0)];
  const names = histogramsByName([...list, logged("grad/b", 2, 0)], "GRAD");
  expect([...names.keys()]).toEqual(["grad/b"]);
  expect(names.get("grad/b")?.map(({ rank, steps }) => [rank, steps.length])).toEqual([
    [0, 2],
    [1, 1],
  ]);
});

it("a wide bin is as full as the values for each unit of the axis", () => {
  const one = bins(0, [0, 1, 4], [4, 6]);
  expect(fullness(one, scaleOf([one]))).toEqual([1, 0.5]);
});

it("buckets of very different widths are drawn alike, unless steps have other edges", () => {
  const one = bins(0, [0, 1, 100], [4, 2]);
  const scale = scaleOf([one, { ...one, step: 1 }]);
  expect(scale.even).toBe(true);
  expect(fullness(one, scale)).toEqual([1, 0.5]);
  expect(scaleOf([one, bins(1, [0, 2, 100], [1, 1])]).even).toBe(false);
});

it("a bin that is empty is not drawn, and the fullest has the darkest shade", () => {
  const steps = [bins(0, [0, 1, 2], [0, 5]), bins(10, [0, 1, 2], [5, 0])];
  const paths = mapPaths(steps, scaleOf(steps));
  expect(paths.slice(0, -1).join("")).toBe("");
  expect(paths.at(-1)).toBe("M0 0H500V500H0ZM500 500H1000V1000H500Z");
});

it("a step is drawn up to the next one, and the pointer finds it again", () => {
  const steps = [0, 10, 40].map((step) => bins(step, [0, 1], [1]));
  expect(steps.map(({ step }) => stepPlace(steps, step))).toEqual([0, 1 / 7, 4 / 7]);
  expect([0, 0.14, 0.15, 0.57, 0.58, 1].map((place) => stepAt(steps, place))).toEqual([
    0, 0, 1, 1, 2, 2,
  ]);
});

it("values of a histogram whose single bin has no width are no error", () => {
  const one = bins(3, [2, 2], [7]);
  expect(fullness(one, scaleOf([one]))).toEqual([0]);
  expect(stepAt([one], 0.5)).toBe(0);
});
