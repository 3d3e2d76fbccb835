// The query line of the table of runs. It is a list of terms, all of which a run must match:
//
//   state:failed project:vision lr     fields by `:`, and words that the name or id has
//   train/loss<2.5 devices>=8          comparisons of fields and of metrics
//   -state:succeeded tag:team=nlp      `-` is not; tags by key or by key=value
//   reason:"no space" sort:-train/loss quotes keep blanks; sort, descending with `-`
//   submitted>-7d ended<2026-01-31     times: relative to now, or in UTC
//   group:project                      rows in groups of equal values of a field or setting
//
// The daemon reads the same (docs/design/run-query.md), by src/platform/run_query.
import { isTime } from "./fields";

export type Operator = ":" | "=" | "!=" | "<" | "<=" | ">" | ">=";

export interface Term {
  negated: boolean;
  /** Empty: a word, which is looked for in id, name, user and command. */
  field: string;
  operator: Operator;
  value: string;
}

export interface Sort {
  field: string;
  descending: boolean;
}

export interface Query {
  terms: Term[];
  sort: Sort | null;
  /** A field, tag or setting whose values divide the table; null: no groups. */
  group: string | null;
  /** What cannot be understood, as a message for the reader. */
  problem: string | null;
}

const term = /^(-?)([\p{L}_][\p{L}\p{N}_./-]*?)(:|!=|<=|>=|=|<|>)(.*)$/su;

export function parseQuery(text: string): Query {
  const query: Query = { terms: [], sort: null, group: null, problem: null };
  for (const word of splitQuery(text)) {
    const parts = term.exec(word);
    if (!parts) {
      const negated = word.startsWith("-") && word.length > 1;
      query.terms.push({
        negated,
        field: "",
        operator: ":",
        value: unquote(negated ? word.slice(1) : word),
      });
      continue;
    }
    const [, minus = "", field = "", operator = ":", rest = ""] = parts;
    const value = unquote(rest);
    if ((field === "sort" || field === "group") && operator === ":" && minus) {
      const more = field === "sort" ? ", or with `-` after the colon" : "";
      query.problem ??= `\`${word}\`: write \`${word.slice(1)}\`${more}`;
      continue;
    }
    if (field === "sort" && operator === ":") {
      if (value.replace(/^-/, "")) query.sort = readSort(value);
      continue;
    }
    if (field === "group" && operator === ":") {
      query.group = value || null;
      continue;
    }
    const problem = problemOf(word, field, operator, value);
    if (problem) {
      query.problem ??= problem;
      continue;
    }
    if (value)
      query.terms.push({ negated: minus === "-", field, operator: operator as Operator, value });
  }
  return query;
}

function problemOf(word: string, field: string, operator: string, value: string): string | null {
  const compares = operator !== ":" && operator !== "=" && operator !== "!=";
  if (field === "tag" && operator !== ":" && operator !== "=")
    return `\`${word}\` must be \`tag:KEY\` or \`tag:KEY=VALUE\``;
  if (compares && value === "")
    return `\`${word}\` lacks a number, such as \`${field}${operator}1\``;
  if (isTime(field) && value !== "") {
    if (!compares) return `\`${word}\` needs a comparison, such as \`${field}>-7d\``;
    if (readTime(value, 0) !== null) return null;
    return `\`${word}\` compares with a time, such as 2026-01-31 or -7d, and \`${value}\` is none`;
  }
  if (compares && !isNumeric(value))
    return `\`${word}\` compares with a number, and \`${value}\` is none`;
  return null;
}

function readSort(value: string): Sort {
  const descending = value.startsWith("-");
  return { field: descending ? value.slice(1) : value, descending };
}

/** Words are separated by blanks; quotes keep blanks, and may begin within a word. */
export function splitQuery(text: string): string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];
}

function unquote(text: string): string {
  return text.replaceAll('"', "");
}

/** A number, also with a unit of time, such as 90s or 2h. */
export function isNumeric(text: string): boolean {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[smhd]?$/i.test(text) || /^[+-]?inf$/i.test(text);
}

export function readNumeric(text: string): number {
  if (!isNumeric(text)) return Number.NaN;
  const unit = { s: 1, m: 60, h: 3600, d: 86400 }[text.at(-1)?.toLowerCase() ?? ""];
  if (unit) return Number(text.slice(0, -1)) * unit;
  return /inf$/i.test(text) ? (text.startsWith("-") ? -Infinity : Infinity) : Number(text);
}

/** Milliseconds since 1970 of 2026-01-31, 2026-01-31T12:00Z, or -7d from now; null: it is none. */
export function readTime(text: string, now: number): number | null {
  if (/^-.*[smhd]$/i.test(text)) return isNumeric(text) ? now + 1000 * readNumeric(text) : null;
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?Z)?$/.test(text)) return null;
  const time = Date.parse(text);
  return Number.isNaN(time) ? null : time;
}

/** The text with one field's sort changed: none, ascending, descending, and none again. */
export function toggleSort(text: string, field: string): string {
  const { sort } = parseQuery(text);
  const rest = splitQuery(text)
    .filter((word) => !word.startsWith("sort:"))
    .join(" ");
  if (sort?.field !== field) return join(rest, `sort:-${field}`);
  return sort.descending ? join(rest, `sort:${field}`) : rest;
}

/** The text with the groups of another field; an empty field removes them. */
export function setGroup(text: string, field: string): string {
  const rest = splitQuery(text)
    .filter((word) => !word.startsWith("group:"))
    .join(" ");
  return field ? join(rest, `group:${field}`) : rest;
}

/** The text with a term added, or removed if it is there already. */
export function toggleTerm(text: string, word: string): string {
  const words = splitQuery(text);
  return words.includes(word)
    ? words.filter((other) => other !== word).join(" ")
    : join(text.trim(), word);
}

export function hasTerm(text: string, word: string): boolean {
  return splitQuery(text).includes(word);
}

function join(...words: string[]): string {
  return words.filter(Boolean).join(" ");
}
