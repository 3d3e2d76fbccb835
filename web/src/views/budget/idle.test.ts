import { expect, it } from "vitest";
import { idleRows, type UseRow } from "./idle";

function use(user: string, known: number | null, idle: number | null): UseRow {
  return { user, project: "", run: "", device_minutes: known, idle_minutes: idle };
}

it("the owner of the most idle minutes comes first", () => {
  const rows = idleRows([use("ann", 100, 10), use("bob", 50, 40)], "user");
  expect(rows.map(({ name, share }) => [name, share])).toEqual([
    ["bob", 0.8],
    ["ann", 0.1],
  ]);
});

it("an owner of whose devices nothing is known is left out", () => {
  expect(idleRows([use("ann", null, null), use("bob", 0, 0)], "user")).toEqual([]);
});
