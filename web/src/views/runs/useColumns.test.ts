import { expect, it } from "vitest";
import { moveColumn, placeColumn, readPinned, toggleColumn, togglePin } from "./useColumns";

const layout = { columns: ["a", "b", "c", "d"], pinned: 2 };

it("a column that is dragged takes the place of the other one, and is pinned if that one was", () => {
  expect(placeColumn(layout, "c", "d")).toEqual({ columns: ["a", "b", "d", "c"], pinned: 2 });
  expect(placeColumn(layout, "a", "c")).toEqual({ columns: ["b", "c", "a", "d"], pinned: 1 });
  expect(placeColumn(layout, "d", "b")).toEqual({ columns: ["a", "d", "b", "c"], pinned: 3 });
});

it("a pinned column stands behind those that were pinned before it", () => {
  expect(togglePin(layout, "d")).toEqual({ columns: ["a", "b", "d", "c"], pinned: 3 });
  expect(togglePin(layout, "a")).toEqual({ columns: ["b", "a", "c", "d"], pinned: 1 });
});

it("a step across the border of the pinned columns pins a column where it is", () => {
  expect(moveColumn(layout, "c", -1)).toEqual({ ...layout, pinned: 3 });
  expect(moveColumn(layout, "b", 1)).toEqual({ ...layout, pinned: 1 });
  expect(moveColumn(layout, "b", -1)).toEqual({ columns: ["b", "a", "c", "d"], pinned: 2 });
  expect(moveColumn(layout, "a", -1)).toBe(layout);
});

it("a hidden column is no longer pinned, and a shown one comes last", () => {
  expect(toggleColumn(layout, "a")).toEqual({ columns: ["b", "c", "d"], pinned: 1 });
  expect(toggleColumn(layout, "d")).toEqual({ columns: ["a", "b", "c"], pinned: 2 });
  expect(toggleColumn(layout, "e")).toEqual({ columns: ["a", "b", "c", "d", "e"], pinned: 2 });
});

it("an address that names no number of pinned columns has one", () => {
  expect(["", null, "x", "-1", "0", "3"].map(readPinned)).toEqual([1, 1, 1, 1, 0, 3]);
});
