import { expect, it } from "vitest";
import { draftOf, readChartBlock, writeChartBlock } from "./chartBlock";

it("a block names a metric, its runs and how they are drawn", () => {
  const text = "metric: train/loss\nruns: demo/1, demo/2\nx: tokens\nsmooth: 0.6\nscale: log";
  expect(readChartBlock(text)).toEqual({
    block: {
      metric: "train/loss",
      runs: ["demo/1", "demo/2"],
      query: "",
      axis: "metric:tokens",
      smoothing: 0.6,
      log: true,
      title: "train/loss",
    },
  });
});

it("a block may select its runs by a query", () => {
  const read = readChartBlock("metric: loss\nquery: project:demo tag:a\nx: time\ntitle: A: b");
  expect(read).toMatchObject({
    block: { query: "project:demo tag:a", axis: "time", title: "A: b", runs: [] },
  });
});

it("a block that cannot be drawn says why", () => {
  const problem = (text: string) => (readChartBlock(text) as { problem: string }).problem;
  expect(problem("runs: demo/1")).toContain("names the metric");
  expect(problem("metric: loss")).toContain("names runs");
  expect(problem("metric: loss\nruns: one")).toContain("`one` is no run");
  expect(problem("metric: loss\ncolour: red")).toContain("`colour: red` is none of");
});

it("a block that is written can be read", () => {
  const block = writeChartBlock("loss", ["demo/1", "demo/2"]).split("\n").slice(1, -2).join("\n");
  expect(readChartBlock(block)).toMatchObject({ block: { runs: ["demo/1", "demo/2"] } });
  expect(draftOf(["demo/1"], ["loss"], "| | demo/1 |")).toContain("## Curves\n\n```chart");
});
