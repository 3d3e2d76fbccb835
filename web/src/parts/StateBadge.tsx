import type { Run, RunState } from "../api/types";

const kinds: Record<RunState, [string, string]> = {
  queued: ["Queued", "hollow"],
  starting: ["Starting", "busy hollow"],
  running: ["Running", "busy"],
  succeeded: ["Succeeded", "good"],
  failed: ["Failed", "bad"],
  timed_out: ["Timed out", "warn"],
  cancelled: ["Cancelled", ""],
};

export function StateBadge({ run }: { run: Pick<Run, "state" | "held"> }) {
  const [label, kind] = kinds[run.state];
  if (run.state === "queued" && run.held) return <span className="badge warn hollow">Held</span>;
  return <span className={`badge ${kind}`}>{label}</span>;
}

/** The colour of a state's badge, as classes. */
export function badgeKind(state: RunState): string {
  return kinds[state][1];
}

export function isActive(state: RunState): boolean {
  return state === "queued" || state === "starting" || state === "running";
}
