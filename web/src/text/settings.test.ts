import { expect, it } from "vitest";
import { settingsOf } from "./settings";

it("reads options, flags and Hydra's assignments", () => {
  expect(
    settingsOf([
      "python",
      "-u",
      "t.py",
      "--lr",
      "3e-4",
      "--bf16",
      "--shift=-1",
      "--low",
      "-2.5",
      "+model.dim=64",
    ]),
  ).toEqual({ lr: "3e-4", bf16: "true", shift: "-1", low: "-2.5", "model.dim": "64" });
});

it("of a program without arguments has none", () => {
  expect(settingsOf(["python"])).toEqual({});
});
