// Which runs a query selects, and in which order. Pure, so that it is the same in each view.
import type { Run } from "../api/types";
import { fieldValue, type Value } from "./fields";
import { parseQuery, type Query, readNumeric, type Term } from "./parse";

export function selectRuns(runs: readonly Run[], query: Query): Run[] {
  const matching = runs.filter((run) => query.terms.every((term) => matches(run, term)));
  return query.sort ? sortRuns(matching, query.sort.field, query.sort.descending) : matching;
}

export function matches(run: Run, term: Term): boolean {
  return holds(run, term) !== term.negated;
}

function holds(run: Run, term: Term): boolean {
  if (term.field === "") return hasWord(run, term.value.toLowerCase());
  if (term.field === "tag") return hasTag(run, term.value);
  const value = fieldValue(run, term.field);
  switch (term.operator) {
    case ":":
      return isOneOf(value, term);
    case "=":
      return equals(value, term.value);
    case "!=":
      return !equals(value, term.value);
    default:
      return compares(value, term);
  }
}

const texts = new WeakMap<Run, string>();

/** All that words are looked for in. It is kept, so that each letter typed costs one search. */
function textOf(run: Run): string {
  const known = texts.get(run);
  if (known !== undefined) return known;
  const parts = [run.id, run.name, run.origin.user, run.reason, ...run.spec.command];
  const text = parts.join("\n").toLowerCase();
  texts.set(run, text);
  return text;
}

function hasWord(run: Run, word: string): boolean {
  return textOf(run).includes(word);
}

function hasTag(run: Run, wanted: string): boolean {
  const [key = "", value] = wanted.split("=", 2);
  return key in run.tags && (value === undefined || run.tags[key] === value);
}

/** `state:failed,queued`: one of the values. Texts match in part, except for state and class. */
function isOneOf(value: Value, term: Term): boolean {
  if (value === null) return false;
  const whole = term.field === "state" || term.field === "class" || typeof value === "number";
  return term.value
    .toLowerCase()
    .split(",")
    .some((wanted) => {
      const text = String(value).toLowerCase();
      return whole ? text === wanted || equals(value, wanted) : text.includes(wanted);
    });
}

function equals(value: Value, wanted: string): boolean {
  if (typeof value === "number") {
    return wanted.toLowerCase() === "nan" ? Number.isNaN(value) : value === readNumeric(wanted);
  }
  return value !== null && value.toLowerCase() === wanted.toLowerCase();
}

function compares(value: Value, term: Term): boolean {
  if (typeof value !== "number" || Number.isNaN(value)) return false;
  const bound = readNumeric(term.value);
  if (term.operator === "<") return value < bound;
  if (term.operator === "<=") return value <= bound;
  if (term.operator === ">") return value > bound;
  return value >= bound;
}

/** Runs without the value, and NaN, come last in both directions. */
export function sortRuns(runs: readonly Run[], field: string, descending: boolean): Run[] {
  const keyed = runs.map((run) => ({ run, value: fieldValue(run, field) }));
  keyed.sort((left, right) => compareValues(left.value, right.value, descending ? -1 : 1));
  return keyed.map(({ run }) => run);
}

function compareValues(left: Value, right: Value, direction: number): number {
  const leftLast = isLast(left);
  const rightLast = isLast(right);
  if (leftLast || rightLast) return Number(leftLast) - Number(rightLast);
  if (typeof left === "number" && typeof right === "number") return (left - right) * direction;
  return String(left).localeCompare(String(right), "en", { numeric: true }) * direction;
}

function isLast(value: Value): boolean {
  return value === null || Number.isNaN(value);
}

/** What of a query the daemon can select by, so that the answer has fewer runs. */
export function serverFilter(text: string): ServerFilter {
  const filter: ServerFilter = {};
  for (const { field, operator, value, negated } of parseQuery(text).terms) {
    if (negated || operator === "!=") continue;
    if (field === "state" && serverStates.has(value)) filter.state = value;
    if (field === "project" && operator === "=") filter.project = value;
    if (field === "user" && operator === "=") filter.user = value;
    if (field === "tag") filter.tag = value;
  }
  return filter;
}

export type ServerFilter = { project?: string; state?: string; tag?: string; user?: string };

const serverStates = new Set([
  "queued",
  "starting",
  "running",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
]);
