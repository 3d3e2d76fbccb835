import { describe, expect, it } from "vitest";
import type { Run } from "../../api/types";
import { axisNames, axisOf, differingSettings, firstAxes, mainMetric } from "./axes";

function run(command: string[], latest: Record<string, number | "NaN"> = {}): Run {
  return {
    latest,
    tags: {},
    spec: { command: ["t", ...command], nodes: 1, devices: 2, remainder: 0 },
    running_seconds: 60,
    cost: { so_far_minutes: 2 },
    progress: null,
  } as unknown as Run;
}

const runs = [
  run(["--lr", "1e-4", "--seed", "1", "--opt", "adam"], { loss: 2, "eval/loss": 3 }),
  run(["--lr", "1e-2", "--seed", "1", "--opt", "sgd"], { loss: 4, "eval/loss": "NaN" }),
  run(["--lr", "1e-3", "--seed", "1"], { loss: 3 }),
];

describe("axes of runs", () => {
  it("are the settings that differ, then metrics, then what runs used", () => {
    expect(differingSettings(runs)).toEqual(["lr", "opt"]);
    expect(axisNames(runs).slice(0, 4)).toEqual(["lr", "opt", "eval/loss", "loss"]);
  });

  it("end with the loss of the evaluation at first", () => {
    expect(mainMetric(runs)).toBe("eval/loss");
    expect(firstAxes(runs)).toEqual(["lr", "opt", "eval/loss"]);
  });

  it("are logarithmic for values over several powers of ten", () => {
    const axis = axisOf(runs, "lr");
    expect(axis.places.map((place) => place?.toFixed(2))).toEqual(["0.00", "1.00", "0.50"]);
    expect(axis.ticks.map(({ label }) => label)).toEqual(["0.0001", "0.001", "0.01"]);
  });

  it("have places of texts, and none where a run has no finite value", () => {
    expect(axisOf(runs, "opt").places).toEqual([0, 1, null]);
    expect(axisOf(runs, "eval/loss").places).toEqual([0.5, null, null]);
  });

  it("have whole ticks for numbers of devices and batches", () => {
    const batches = [run(["--batch", "1"]), run(["--batch", "2"])];
    expect(axisOf(batches, "batch").ticks.map(({ label }) => label)).toEqual(["1", "2"]);
  });

  it("have few ticks with few digits", () => {
    expect(axisOf(runs, "loss").ticks.map(({ label }) => label)).toEqual([
      "2",
      "2.5",
      "3",
      "3.5",
      "4",
    ]);
  });
});
