// In which settings, requests and results runs differ. Pure.
import { type Run, toNumber } from "../../api/types";
import { formatMinutes, formatNumber, formatSeconds } from "../../text/format";
import { settingsOf } from "../../text/settings";
import { flatSpec } from "../run/settings/specRows";

export interface Difference {
  section: "Settings" | "Requests" | "Code" | "Results";
  name: string;
  /** One text for each run; null: it has none. */
  values: (string | null)[];
  /** Runs with the best value, for results of which less is better. */
  best?: number;
}

/** Rows in which all runs agree are left out, except for results. */
export function differencesOf(runs: readonly Run[]): Difference[] {
  return [
    ...rows(
      "Settings",
      runs.map((run) => settingsOf(run.spec.command)),
    ),
    ...rows(
      "Requests",
      runs.map((run) => flatSpec(run.spec)),
    ),
    ...rows("Code", runs.map(codeOf)),
    ...resultsOf(runs),
  ];
}

function rows(section: Difference["section"], records: Record<string, string>[]): Difference[] {
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  return names
    .map((name) => ({ section, name, values: records.map((record) => record[name] ?? null) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
}

function codeOf(run: Run): Record<string, string> {
  const { git_commit, git_dirty } = run.origin;
  return {
    commit: git_commit ? git_commit.slice(0, 12) + (git_dirty ? ", changed" : "") : "none",
    program: run.spec.command.slice(0, 2).join(" "),
  };
}

function resultsOf(runs: readonly Run[]): Difference[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.latest)))].sort();
  const metrics = names.map((name): Difference => {
    const numbers = runs.map((run) =>
      run.latest[name] === undefined ? null : toNumber(run.latest[name]),
    );
    return {
      section: "Results",
      name,
      values: numbers.map((value) => (value === null ? null : formatNumber(value))),
      best: bestOf(name, numbers),
    };
  });
  return [
    { section: "Results", name: "state", values: runs.map((run) => run.state.replace("_", " ")) },
    {
      section: "Results",
      name: "running time",
      values: runs.map((run) => formatSeconds(toNumber(run.running_seconds))),
    },
    {
      section: "Results",
      name: "cost",
      values: runs.map((run) => formatMinutes(toNumber(run.cost.so_far_minutes))),
    },
    ...metrics,
  ];
}

/** The index of the best value, for metrics whose names say which way is better. */
function bestOf(name: string, numbers: readonly (number | null)[]): number | undefined {
  if (/loss|perplexity|error/i.test(name)) return leastOf(numbers);
  const negated = numbers.map((value) => (value === null ? null : -value));
  return /accuracy|reward|score|f1|tokens_per_second/i.test(name) ? leastOf(negated) : undefined;
}

/** Undefined if all that there are are equal. */
function leastOf(numbers: readonly (number | null)[]): number | undefined {
  if (new Set(numbers.filter((value) => value !== null)).size < 2) return undefined;
  let best: number | undefined;
  numbers.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) return;
    if (best === undefined || value < (numbers[best] ?? Number.POSITIVE_INFINITY)) best = index;
  });
  return best;
}

/** The table in Markdown. */
export function asMarkdown(runs: readonly Run[], differences: readonly Difference[]): string {
  const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [
    line(["", ...runs.map((run) => run.id)]),
    `|${" --- |".repeat(runs.length + 1)}`,
    ...differences.map(({ name, values }) => line([name, ...values.map((v) => v ?? "")])),
  ].join("\n");
}

/** The table as comma-separated values, as RFC 4180 has them. */
export function asCsv(runs: readonly Run[], differences: readonly Difference[]): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (cells: readonly string[]) => cells.map(cell).join(",");
  return [
    line(["", ...runs.map((run) => run.id)]),
    ...differences.map(({ name, values }) => line([name, ...values.map((v) => v ?? "")])),
  ].join("\r\n");
}

/** The table as text with tabs, to paste into a spreadsheet. */
export function asText(runs: readonly Run[], differences: readonly Difference[]): string {
  const head = ["", ...runs.map((run) => run.id)].join("\t");
  return [
    head,
    ...differences.map(({ name, values }) => [name, ...values.map((v) => v ?? "")].join("\t")),
  ].join("\n");
}
