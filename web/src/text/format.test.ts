import { describe, expect, it } from "vitest";
import {
  formatAgo,
  formatBytes,
  formatMinutes,
  formatNumber,
  formatSeconds,
  formatSecondsTick,
  formatTick,
  parseDuration,
} from "./format";

describe("numbers", () => {
  it("keep four digits and stay short", () => {
    expect(formatNumber(2.123456)).toBe("2.123");
    expect(formatNumber(0.00021757)).toBe("2.18e-4".replace("-", "−"));
    expect(formatNumber(81684.7)).toBe("81,685");
    expect(formatNumber(19267584)).toBe("19.27M");
    expect(formatNumber(147)).toBe("147");
    expect(formatNumber(-0.5)).toBe("−0.5000");
  });
  it("that are not finite are shown as such", () => {
    expect(formatNumber(Number.NaN)).toBe("NaN");
    expect(formatNumber(Number.POSITIVE_INFINITY)).toBe("∞");
    expect(formatNumber(Number.NEGATIVE_INFINITY)).toBe("−∞");
  });
  it("of axes are shorter", () => {
    expect(formatTick(0.1 + 0.2)).toBe("0.3");
    expect(formatTick(20000)).toBe("20k");
    expect(formatTick(7500)).toBe("7.5k");
    expect(formatTick(1500000)).toBe("1.5M");
    expect(formatTick(1e-6)).toBe("1e−6");
    expect(formatTick(2.5e17)).toBe("2.5e17");
    expect(formatTick(-0.5)).toBe("−0.5");
  });
});

describe("times", () => {
  it("have two units at most", () => {
    expect(formatSeconds(3)).toBe("3s");
    expect(formatSeconds(320)).toBe("5m 20s");
    expect(formatSeconds(7500)).toBe("2h 05m");
    expect(formatSeconds(90000 + 86400)).toBe("2d 1h");
    expect(formatSecondsTick(300)).toBe("5m");
    expect(formatSecondsTick(5400)).toBe("1h 30m");
  });
  it("are relative to now", () => {
    expect(formatAgo(1000, 13000)).toBe("12s ago");
    expect(formatAgo(3_601_000, 0)).toBe("in 1h");
    expect(formatAgo(7_190_000, 0)).toBe("in 1h 59m");
    expect(formatAgo(86_400_000 + 7_200_000, 0)).toBe("in 1d 2h");
    expect(formatAgo(0, 500)).toBe("now");
  });
  it("of the API are read with all their units", () => {
    expect(parseDuration("1h 30m")).toBe(5400);
    expect(parseDuration("2d")).toBe(172800);
    expect(parseDuration("250ms")).toBeCloseTo(0.25);
  });
});

describe("sizes and costs", () => {
  it("have a unit", () => {
    expect(formatBytes(512)).toBe("512 B");
    expect(formatBytes(12 * 1024 ** 3)).toBe("12.0 GiB");
    expect(formatMinutes(0.01)).toBe("<0.1 min");
    expect(formatMinutes(4.25)).toBe("4.3 min");
    expect(formatMinutes(600)).toBe("10.0 h");
  });
});
