import { expect, it } from "vitest";
import { columnOf } from "./columns";
import { pinClass, placeColumns } from "./pins";

it("each pinned column stays behind those before it, and the others scroll", () => {
  const views = placeColumns(["state", "devices", "user"].map(columnOf), 2);
  expect(views.map(({ left }) => left)).toEqual([34, 142, undefined]);
  expect(views.map(pinClass)).toEqual(["pinned", "pinned edge", ""]);
});

it("more pinned columns than there are pin all of them", () => {
  const views = placeColumns(["state", "user"].map(columnOf), 9);
  expect(views.map(pinClass)).toEqual(["pinned", "pinned edge"]);
});
