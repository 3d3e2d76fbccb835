// Examples that the daemon's tests read as well: src/platform/store/run_query_test.cc.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Run } from "../api/types";
import { selectRuns } from "./match";
import { parseQuery } from "./parse";

interface Row {
  id: string;
  submitted: string;
  user: string;
  command: string[];
  [name: string]: unknown;
}

interface Table {
  now: string;
  runs: Row[];
  cases: { query: string; runs: string[] }[];
  problems: { query: string; problem: string }[];
}

const file = new URL("../../../tests/golden/run-query.json", import.meta.url);
const table = JSON.parse(readFileSync(file, "utf8")) as Table;

function runOf(row: Row): Run {
  const { id, user, command, step, steps, cost_minutes, git_commit, timeout } = row;
  const spec = {
    project: id.split("/")[0],
    command,
    nodes: row.nodes ?? 1,
    devices: row.devices ?? 1,
    remainder: row.remainder ?? 0,
    class: row.class ?? "normal",
    timeout,
  };
  return {
    reason: "",
    held: false,
    latest: {},
    tags: {},
    note: "",
    priority: 0,
    running_seconds: 0,
    started: null,
    ended: null,
    attempts: [],
    ...row,
    spec,
    origin: { user, git_commit: git_commit ?? "" },
    cost: { so_far_minutes: cost_minutes ?? 0 },
    progress: step === undefined ? null : { step, steps },
  } as unknown as Run;
}

/** Newest first, as the daemon lists them. */
const runs = [...table.runs]
  .sort((left, right) => Date.parse(right.submitted) - Date.parse(left.submitted))
  .map(runOf);

describe("the query line", () => {
  it.each(table.cases)("`$query` selects the runs of the table", ({ query, runs: expected }) => {
    const parsed = parseQuery(query);
    expect(parsed.problem).toBeNull();
    const selected = selectRuns(runs, parsed, Date.parse(table.now));
    expect(selected.map((run) => run.id)).toEqual(expected);
  });

  it.each(table.problems)("`$query` is refused as by the daemon", ({ query, problem }) => {
    expect(parseQuery(query).problem).toBe(problem);
  });
});
