import { expect, it } from "vitest";
import type { Queue } from "../../api/types";
import { timelineOf } from "./timelineRows";

const now = Date.parse("2026-01-01T00:00:00Z");
const hour = 3_600_000;

function waits(run: string, blocker: string | null, start: string, latest: string | null = null) {
  return { run, name: "", timeout: "1h", blocker, expected_start: start, latest_start: latest };
}

function queue(...waiting: ReturnType<typeof waits>[]): Queue {
  const allocations = [{ run: "demo/1", name: "", expected_end: "2026-01-01T01:00:00Z" }];
  return { waiting, allocations } as unknown as Queue;
}

it("a run is drawn as reserved if the scheduler has reserved its start", () => {
  const head = { ...waits("demo/2", "demo/1", "2026-01-01T01:00:00Z"), reserved: true };
  const behind = waits("demo/3", "demo/2", "2026-01-01T02:00:00Z");
  const { rows } = timelineOf(queue(head, behind), now);
  expect(rows.map(({ id, kind }) => [id, kind])).toEqual([
    ["demo/1", "running"],
    ["demo/2", "reserved"],
    ["demo/3", "waiting"],
  ]);
});

it("a latest start does not stretch the axis, and is no earlier than the expected one", () => {
  const one = waits("demo/2", "demo/1", "2026-01-01T01:00:00Z", "2026-01-09T00:00:00Z");
  const two = waits("demo/3", "demo/1", "2025-12-31T00:00:00Z", "2025-12-31T00:00:00Z");
  const { rows, end } = timelineOf(queue(one, two), now);
  expect(end).toBe(now + 2 * hour);
  expect(rows.find(({ id }) => id === "demo/2")?.latest).toBe(Date.parse("2026-01-09T00:00:00Z"));
  expect(rows.find(({ id }) => id === "demo/3")?.latest).toBe(now);
});
