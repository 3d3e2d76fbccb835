import { expect, it } from "vitest";
import { joinRuns, shareRuns } from "./shareRuns";
import type { RunList } from "./types";

function list(...runs: { id: string; version: number; ended: string | null }[]): RunList {
  return { runs, problems: [], notices: [] } as unknown as RunList;
}

const ended = { id: "a/1", version: 3, ended: "2026-01-01T00:00:00Z" };
const running = { id: "a/2", version: 1, ended: null };

it("an ended run stays the same object until its version changes", () => {
  const before = list(ended, running);
  const after = shareRuns(before, list({ ...ended }, { ...running }));
  expect(after.runs[0]).toBe(before.runs[0]);
  expect(after.runs[1]).not.toBe(before.runs[1]);
  expect(shareRuns(before, list({ ...ended, version: 4 })).runs[0]?.version).toBe(4);
});

it("a list without changes stays the same list, also for another list with the same runs", () => {
  const before = list(ended);
  expect(shareRuns(before, list({ ...ended }))).toBe(before);
  const other = { ...before, runs: [...before.runs] };
  expect(shareRuns(before, other)).toBe(before);
  expect(shareRuns(undefined, other)).toBe(other);
});

it("a run that was removed is gone", () => {
  expect(shareRuns(list(ended, running), list(ended)).runs).toHaveLength(1);
});

it("a run in the live list and in a later page is there once, as the live list has it", () => {
  const older = { id: "a/0", version: 1, ended: null };
  const live = list({ ...running, version: 2 }).runs;
  const joined = joinRuns(live, [list(running, older), list(ended)]);
  expect(joined.map((run) => [run.id, run.version])).toEqual([
    ["a/2", 2],
    ["a/0", 1],
    ["a/1", 3],
  ]);
  expect(joinRuns(live, [])).toBe(live);
});
