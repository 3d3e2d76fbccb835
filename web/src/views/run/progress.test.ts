import { expect, it } from "vitest";
import type { Run } from "../../api/types";
import { secondsLeft } from "./progress";

it("the time in the queue between two attempts does not slow the pace of a run", () => {
  const run = {
    state: "running",
    started: "2026-01-01T00:00:00Z",
    attempts: [
      { started: "2026-01-01T00:00:00Z", ended: "2026-01-01T00:01:00Z" },
      { started: "2026-01-01T01:00:00Z", ended: null },
    ],
    running_seconds: 60,
    progress: { step: 90, steps: 270, time: "2026-01-01T01:00:30Z" },
  } as unknown as Run;
  expect(secondsLeft(run, Date.parse("2026-01-01T01:00:31Z"))).toBe(180);
});
