import { expect, it } from "vitest";
import { Batch } from "./batch";

it("questions of one moment are one call, of a bounded size", async () => {
  const calls: number[][] = [];
  const batch = new Batch<number, string>(
    async (keys) => {
      calls.push(keys);
      return keys.map((key) => `v${key}`);
    },
    2,
    0,
  );
  expect(await Promise.all([1, 2, 3].map((key) => batch.load(key)))).toEqual(["v1", "v2", "v3"]);
  expect(calls).toEqual([[1, 2], [3]]);
  expect(await batch.load(4)).toBe("v4");
});

it("each question of a call that fails fails", async () => {
  const batch = new Batch<number, string>(() => Promise.reject(new Error("no answer")), 10, 0);
  const results = await Promise.allSettled([batch.load(1), batch.load(2)]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});
