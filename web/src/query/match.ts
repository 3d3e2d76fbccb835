// Which runs a query selects, and in which order. Pure, so that it is the same in each view.
import type { Run } from "../api/types";
import { fieldValue, isField, isTime, type Value } from "./fields";
import { parseQuery, type Query, readNumeric, readTime, splitQuery, type Term } from "./parse";

export function selectRuns(runs: readonly Run[], query: Query, now = Date.now()): Run[] {
  const matching = runs.filter((run) => query.terms.every((term) => matches(run, term, now)));
  return query.sort ? sortRuns(matching, query.sort.field, query.sort.descending) : matching;
}

export function matches(run: Run, term: Term, now: number): boolean {
  return holds(run, term, now) !== term.negated;
}

function holds(run: Run, term: Term, now: number): boolean {
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
      return compares(value, term, now);
  }
}

const texts = new WeakMap<Run, string>();

/** All that words are looked for in. It is kept, so that each letter typed costs one search. */
function textOf(run: Run): string {
  const known = texts.get(run);
  if (known !== undefined) return known;
  const command = run.spec.command.join(" ");
  const parts = [run.id, run.name, run.origin.user, run.reason, command];
  const text = parts.join("\n").toLowerCase();
  texts.set(run, text);
  return text;
}

function hasWord(run: Run, word: string): boolean {
  return textOf(run).includes(word);
}

function hasTag(run: Run, wanted: string): boolean {
  const equals = wanted.indexOf("=");
  if (equals < 0) return wanted in run.tags;
  return run.tags[wanted.slice(0, equals)] === wanted.slice(equals + 1);
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

function compares(value: Value, term: Term, now: number): boolean {
  if (typeof value !== "number" || Number.isNaN(value)) return false;
  const bound = isTime(term.field) ? readTime(term.value, now) : readNumeric(term.value);
  if (bound === null) return false;
  if (term.operator === "<") return value < bound;
  if (term.operator === "<=") return value <= bound;
  if (term.operator === ">") return value > bound;
  return value >= bound;
}

/** Runs without the value, and NaN, come last in both directions. Numbers are before texts. */
export function sortRuns(runs: readonly Run[], field: string, descending: boolean): Run[] {
  const keyed = runs.map((run) => ({ run, key: sortKey(fieldValue(run, field)) }));
  keyed.sort((left, right) => compareKeys(left.key, right.key, descending ? -1 : 1));
  return keyed.map(({ run }) => run);
}

function sortKey(value: Value): Value {
  if (value === "" || Number.isNaN(value)) return null;
  return typeof value === "string" ? naturalKey(value) : value;
}

/** Sorts without case, and digits by the size of their number, as the daemon does. */
function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => {
    const number = digits.replace(/^0+(?=\d)/, "");
    return "9".repeat(Math.floor(number.length / 9)) + (number.length % 9) + number;
  });
}

function compareKeys(left: Value, right: Value, direction: number): number {
  if (left === null || right === null) return Number(left === null) - Number(right === null);
  if (left === right) return 0;
  if (typeof left !== typeof right) return (typeof left === "number" ? -1 : 1) * direction;
  return (left < right ? -1 : 1) * direction;
}

/** Fields by which the daemon sorts; it also sorts by metrics and settings. */
const sortedFields = new Set(
  "submitted started ended name state user class nodes devices priority timeout commit".split(" "),
);

const termsMax = 20;

/** If the daemon sorts by the field: the page sorts by the others what it has. */
export function daemonSorts(field: string): boolean {
  return sortedFields.has(field) || !isField(field);
}

/**
 * The runs of the daemon's answer to the line, in its order. Lists have no hosts, and not all
 * metrics, so those terms are the daemon's alone.
 */
export function answeredRuns(runs: readonly Run[], query: Query, now = Date.now()): Run[] {
  const terms = query.terms.filter(
    ({ field }) => field === "" || field === "tag" || (isField(field) && field !== "host"),
  );
  const sort = query.sort && daemonSorts(query.sort.field) ? null : query.sort;
  return selectRuns(runs, { ...query, terms, sort }, now);
}

/** The line as the daemon takes it: without groups, and without what it refuses. */
export function daemonQuery(text: string): string {
  const words = splitQuery(text).filter((word) => {
    const { sort, group, problem } = parseQuery(word);
    return !problem && group === null && (!sort || daemonSorts(sort.field));
  });
  const line = words.join(" ");
  return parseQuery(line).terms.length > termsMax ? "" : line;
}

/** The filter of the list of runs; without one, the daemon has its shortest way. */
export function daemonFilter(text: string): { query?: string } {
  const query = daemonQuery(text);
  return query ? { query } : {};
}
