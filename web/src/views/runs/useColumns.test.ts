import { expect, it } from "vitest";
import { placeColumn } from "./useColumns";

it("a column that is dragged takes the place of the other one", () => {
  expect(placeColumn(["a", "b", "c"], "a", "c")).toEqual(["b", "c", "a"]);
  expect(placeColumn(["a", "b", "c"], "c", "a")).toEqual(["c", "a", "b"]);
});
