import { type Run, toNumber } from "../../api/types";

/** Running time over all attempts, which the time limit counts: not the time in the queue between. */
export function runningSeconds(run: Run, now: number): number {
  if (run.state !== "running") return toNumber(run.running_seconds);
  return run.attempts.reduce((sum, { started, ended }) => {
    if (!started) return sum;
    return sum + ((ended ? Date.parse(ended) : now) - Date.parse(started)) / 1000;
  }, 0);
}

/** Seconds until the last step, at the mean pace of this run so far; null: unknown. */
export function secondsLeft(run: Run, now: number): number | null {
  const { progress, started, state } = run;
  if (state !== "running" || !progress?.steps || progress.step <= 0 || !started) return null;
  const elapsed = (Math.min(now, Date.parse(progress.time)) - Date.parse(started)) / 1000;
  return elapsed <= 0 ? null : (elapsed / progress.step) * (progress.steps - progress.step);
}
