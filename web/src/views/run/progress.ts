import { runningSeconds } from "../../api/running";
import type { Run } from "../../api/types";

/** Seconds until the last step, at the mean pace of this run so far; null: unknown. */
export function secondsLeft(run: Run, now: number): number | null {
  const { progress, started, state } = run;
  if (state !== "running" || !progress?.steps || progress.step <= 0 || !started) return null;
  const elapsed = runningSeconds(run, Math.min(now, Date.parse(progress.time)));
  return elapsed <= 0 ? null : (elapsed / progress.step) * (progress.steps - progress.step);
}
