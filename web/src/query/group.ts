// Rows of the table of runs in groups of equal values, with counts and aggregates. Pure.
import type { Run, RunState } from "../api/types";
import { fieldValue, type Value } from "./fields";

export interface Group {
  /** The value as text; empty: the runs that have none. */
  key: string;
  value: Value;
  runs: Run[];
  states: [RunState, number][];
}

/** Groups in the order of their first runs, so a sort of the runs also sorts the groups. */
export function groupRuns(runs: readonly Run[], field: string): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const value = fieldValue(run, field);
    const key = value === null ? "" : String(value);
    const group = groups.get(key);
    if (group) group.runs.push(run);
    else groups.set(key, { key, value, runs: [run], states: [] });
  }
  for (const group of groups.values()) group.states = countStates(group.runs);
  return [...groups.values()];
}

function countStates(runs: readonly Run[]): [RunState, number][] {
  const counts = new Map<RunState, number>();
  for (const { state } of runs) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].sort((left, right) => right[1] - left[1]);
}

export interface Aggregate {
  kind: "sum" | "mean";
  value: number;
  least: number;
  greatest: number;
  /** Runs that have the value. */
  count: number;
}

/** Amounts that runs use add up; of all else the mean says more. */
const sums = new Set(["devices", "nodes", "cost", "running"]);
/** Times and numbers of which neither a sum nor a mean means anything. */
const none = new Set(["submitted", "started", "ended", "id"]);

/** Null: no run has a finite number. */
export function aggregateOf(runs: readonly Run[], field: string): Aggregate | null {
  if (none.has(field)) return null;
  let sum = 0;
  let count = 0;
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const run of runs) {
    const value = fieldValue(run, field);
    if (typeof value !== "number" || !Number.isFinite(value)) continue;
    sum += value;
    count += 1;
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  if (count === 0) return null;
  const kind = sums.has(field) ? "sum" : "mean";
  return { kind, value: kind === "sum" ? sum : sum / count, least, greatest, count };
}

/** A row of the table: the head of a group, or a run. */
export type Row = { kind: "group"; group: Group; open: boolean } | { kind: "run"; run: Run };

export function rowsOf(runs: readonly Run[], groups: Group[] | null, open: Set<string>): Row[] {
  if (!groups) return runs.map((run) => ({ kind: "run", run }));
  return groups.flatMap((group): Row[] => {
    const isOpen = open.has(group.key);
    const head: Row = { kind: "group", group, open: isOpen };
    return isOpen ? [head, ...group.runs.map((run): Row => ({ kind: "run", run }))] : [head];
  });
}

/** Names that the menu of groups offers: fields, tags, and settings that differ between the runs. */
export function groupChoices(
  runs: readonly Run[],
  settings: (run: Run) => Record<string, string>,
): string[] {
  const tags = new Set<string>();
  const values = new Map<string, Set<string>>();
  for (const run of runs.slice(0, 500)) {
    for (const tag of Object.keys(run.tags)) tags.add(`tag.${tag}`);
    for (const [name, value] of Object.entries(settings(run))) {
      const known = values.get(name) ?? new Set();
      values.set(name, known.add(value));
    }
  }
  const differing = [...values].filter(([, known]) => known.size > 1).map(([name]) => name);
  return ["project", "state", "user", "class", ...[...tags].sort(), ...differing.sort()];
}
