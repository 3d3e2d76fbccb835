// How long a run has run, up to now.
import { type Run, toNumber } from "./types";

const readAt = new WeakMap<Run, number>();

/** Lists of runs have no attempts, so the time since they were read is added to the daemon's sum. */
export function noteRead(runs: readonly Run[], now = Date.now()): void {
  for (const run of runs) if (run.state === "running") readAt.set(run, now);
}

/** Running time over all attempts, which the time limit counts: not the time in the queue between. */
export function runningSeconds(run: Run, now: number): number {
  const counted = toNumber(run.running_seconds);
  if (run.state !== "running") return counted;
  if (run.attempts.length === 0) return counted + (now - (readAt.get(run) ?? now)) / 1000;
  return run.attempts.reduce((sum, { started, ended }) => {
    if (!started) return sum;
    return sum + ((ended ? Date.parse(ended) : now) - Date.parse(started)) / 1000;
  }, 0);
}
