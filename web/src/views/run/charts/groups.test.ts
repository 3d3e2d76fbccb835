import { expect, it } from "vitest";
import { groupNames } from "./groups";

it("a slash before a unit separates no group", () => {
  const groups = groupNames(["tokens/s", "train/tokens/s", "train/loss", "loss"], "");
  expect(groups).toEqual([
    { group: "train", names: ["train/loss", "train/tokens/s"] },
    { group: "metrics", names: ["loss", "tokens/s"] },
  ]);
});
