import type { Run, RunList } from "./types";

/**
 * Runs that did not change stay the same objects, so that their rows are not drawn again. A list in
 * which nothing changed stays the same list: TanStack Query calls this on each render, and another
 * list would cause the next render.
 */
export function shareRuns(before: RunList | undefined, after: RunList): RunList {
  if (!before || before === after) return after;
  const known = new Map(before.runs.map((run) => [run.id, run]));
  const runs = after.runs.map((run) => unchanged(known.get(run.id), run) ?? run);
  const same = runs.length === before.runs.length && runs.every((run, i) => run === before.runs[i]);
  return same ? before : { ...after, runs };
}

/** The live runs, then those of later pages that are not among them. */
export function joinRuns(live: Run[], pages: readonly RunList[]): Run[] {
  if (pages.length === 0) return live;
  const known = new Set(live.map((run) => run.id));
  return [...live, ...pages.flatMap((page) => page.runs.filter((run) => !known.has(run.id)))];
}

/** An ended run changes only with its version; one that runs has new steps without that. */
function unchanged(before: Run | undefined, after: Run): Run | undefined {
  if (before === after) return after;
  return before && before.version === after.version && after.ended !== null ? before : undefined;
}
