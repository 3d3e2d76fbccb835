import { describe, expect, it } from "vitest";
import { columnsOf, meanHeight } from "./columns";

describe("columns of a line", () => {
  it("have its extremes, also where many points share a column", () => {
    const { top, bottom } = columnsOf([10.1, 10.4, 10.8, 11.5], [5, 1, 9, 9], 10, 2);
    expect([...top]).toEqual([1, 9]);
    expect([...bottom]).toEqual([9, 9]);
  });
  it("have the parts of a segment that crosses them", () => {
    const { top, bottom } = columnsOf([0.5, 3.5], [0, 30], 0, 4);
    expect([...top]).toEqual([0, 5, 15, 25]);
    expect([...bottom]).toEqual([5, 15, 25, 30]);
  });
  it("begin and end with the line", () => {
    const { top } = columnsOf([1.5, 2.5], [7, 7], 0, 4);
    expect([...top]).toEqual([Number.NaN, 7, 7, Number.NaN]);
  });
  it("have a segment whose ends are out of view", () => {
    const { top, bottom } = columnsOf([-90, 110], [0, 200], 0, 2);
    expect([...top]).toEqual([90, 91]);
    expect([...bottom]).toEqual([91, 92]);
  });
  it("have a single point", () => {
    expect([...columnsOf([1.2], [4], 0, 2).top]).toEqual([Number.NaN, 4]);
  });
  it("are those of the line at any place", () => {
    let seed = 1;
    const random = () => {
      seed = (seed * 16807) % 2147483647;
      return seed / 2147483647;
    };
    const x = Array.from({ length: 60 }, () => random() * 60 - 20).sort((a, b) => a - b);
    const y = x.map(() => random() * 100);
    const { top, bottom } = columnsOf(x, y, 0, 20);
    for (let at = 0.005; at < 20; at += 0.01) {
      const after = x.findIndex((value) => value >= at);
      const [x0 = 0, x1 = 0, y0 = 0, y1 = 0] = [x[after - 1], x[after], y[after - 1], y[after]];
      const value = y0 + ((at - x0) / (x1 - x0)) * (y1 - y0);
      expect(top[Math.floor(at)]).toBeLessThanOrEqual(value + 1e-9);
      expect(bottom[Math.floor(at)]).toBeGreaterThanOrEqual(value - 1e-9);
    }
  });
  it("of a noisy line are higher than those of a smooth one", () => {
    const x = Array.from({ length: 100 }, (_, index) => index / 2);
    const noisy = x.map((_, index) => (index % 2) * 40);
    expect(meanHeight(columnsOf(x, noisy, 0, 50))).toBeGreaterThan(35);
    expect(meanHeight(columnsOf(x, x, 0, 50))).toBeLessThan(1.1);
    expect(meanHeight(columnsOf([], [], 0, 50))).toBe(0);
  });
});
