import { expect, it } from "vitest";
import { noteRead, runningSeconds } from "./running";
import type { Run } from "./types";

const attempts = [
  { started: "2026-01-01T00:00:00Z", ended: "2026-01-01T00:01:00Z" },
  { started: null, ended: "2026-01-01T00:02:00Z" },
  { started: "2026-01-01T01:00:00Z", ended: null },
];
const now = Date.parse("2026-01-01T01:00:30Z");

it("the time in the queue between two attempts is no running time", () => {
  const run = { state: "running", attempts, running_seconds: 60 } as unknown as Run;
  expect(runningSeconds(run, now)).toBe(90);
});

it("a run that does not run has the time that the daemon counted", () => {
  const run = { state: "queued", attempts, running_seconds: 60 } as unknown as Run;
  expect(runningSeconds(run, now)).toBe(60);
});

it("a run of a list, which has no attempts, goes on from the time that the daemon counted", () => {
  const run = { state: "running", attempts: [], running_seconds: 60 } as unknown as Run;
  expect(runningSeconds(run, now)).toBe(60);
  noteRead([run], now - 5_000);
  expect(runningSeconds(run, now)).toBe(65);
});
