import { expect, it } from "vitest";
import { imagesByName } from "./images";
import type { LoggedImage } from "./types";

function image(name: string, step: number, index = 0): LoggedImage {
  return { name, step, index } as LoggedImage;
}

it("images of one name and step are together", () => {
  const names = imagesByName([image("a", 1), image("a", 1, 1), image("a", 2), image("b", 1)]);
  const counts = [...names].map(([name, steps]) => [name, steps.map((each) => each.images.length)]);
  expect(counts).toEqual([
    ["a", [2, 1]],
    ["b", [1]],
  ]);
});
