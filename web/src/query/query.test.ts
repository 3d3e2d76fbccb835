import { describe, expect, it } from "vitest";
import type { Run } from "../api/types";
import { daemonQuery, selectRuns } from "./match";
import { parseQuery, toggleSort, toggleTerm } from "./parse";

/** A run with good defaults: a test names only what matters to it. */
function run(changes: Partial<Run> & { command?: string[]; project?: string } = {}): Run {
  const base = {
    id: "default/1",
    name: "gpt",
    state: "succeeded",
    reason: "",
    held: false,
    latest: {},
    tags: {},
    note: "",
    attempts: [],
    progress: null,
    submitted: "2026-01-01T00:00:00Z",
    started: null,
    ended: null,
    running_seconds: 0,
    priority: 0,
    cost: { so_far_minutes: 0, at_limit_minutes: 0 },
    origin: { user: "ann", git_commit: "", git_dirty: false, forked_from: null },
    spec: {
      project: changes.project ?? "default",
      command: changes.command ?? ["python", "train.py"],
      nodes: 1,
      devices: 1,
      remainder: 0,
      class: "normal",
      timeout: "1h",
    },
  };
  return { ...base, ...changes } as unknown as Run;
}

function select(text: string, ...runs: Run[]): string[] {
  return selectRuns(runs, parseQuery(text)).map((each) => each.id);
}

const a = run({ id: "default/1", name: "gpt-small", latest: { "train/loss": 2.5 } });
const b = run({ id: "default/2", name: "vit", state: "failed", reason: "no space left" });
const c = run({
  id: "vision/3",
  project: "vision",
  latest: { "train/loss": "NaN" },
  tags: { team: "nlp" },
  command: ["python", "t.py", "--lr", "3e-4", "model.dim=64"],
});

describe("a query", () => {
  it("without terms selects every run in the order of the list", () => {
    expect(select("", a, b, c)).toEqual(["default/1", "default/2", "vision/3"]);
  });
  it("finds a word in name, id, reason and command, whatever its case", () => {
    expect(select("GPT", a, b)).toEqual(["default/1"]);
    expect(select("vision/", a, c)).toEqual(["vision/3"]);
    expect(select('"no space"', a, b)).toEqual(["default/2"]);
  });
  it("selects by state, by several states and by their opposite", () => {
    expect(select("state:failed", a, b, c)).toEqual(["default/2"]);
    expect(select("state:failed,running", a, b)).toEqual(["default/2"]);
    expect(select("-state:failed", a, b)).toEqual(["default/1"]);
    expect(select("state:fail", a, b)).toEqual([]);
  });
  it("compares metrics and settings; a run without the value does not match", () => {
    expect(select("train/loss<3", a, b, c)).toEqual(["default/1"]);
    expect(select("train/loss=NaN", a, b, c)).toEqual(["vision/3"]);
    expect(select("lr=0.0003", a, b, c)).toEqual(["vision/3"]);
    expect(select("model.dim>=64", a, c)).toEqual(["vision/3"]);
  });
  it("selects by tag", () => {
    expect(select("tag:team", a, c)).toEqual(["vision/3"]);
    expect(select("tag:team=vision", a, c)).toEqual([]);
  });
  it("names a comparison that lacks its number, and ignores it", () => {
    const query = parseQuery("train/loss<x gpt");
    expect(query.problem).toContain("`x` is none");
    expect(query.terms).toHaveLength(1);
  });
  it("may have a quote without an end", () => {
    expect(select('reason:"no space', a, b)).toEqual(["default/2"]);
  });
  it("compares times with units", () => {
    expect(select("running>1h", run({ running_seconds: 7200 }), run({ id: "default/9" }))).toEqual([
      "default/1",
    ]);
  });
});

describe("sorting", () => {
  const better = run({ id: "default/4", latest: { "train/loss": 1 } });
  it("puts runs without a value and NaN last in both directions", () => {
    expect(select("sort:train/loss", a, b, c, better)).toEqual([
      "default/4",
      "default/1",
      "default/2",
      "vision/3",
    ]);
    expect(select("sort:-train/loss", c, better, a)).toEqual([
      "default/1",
      "default/4",
      "vision/3",
    ]);
  });
  it("changes in the text: descending, ascending, none", () => {
    const once = toggleSort("gpt", "step");
    expect(once).toBe("gpt sort:-step");
    expect(toggleSort(once, "step")).toBe("gpt sort:step");
    expect(toggleSort("gpt sort:step", "step")).toBe("gpt");
    expect(toggleSort("sort:step gpt", "name")).toBe("gpt sort:-name");
  });
});

describe("terms", () => {
  it("are added and removed as whole words", () => {
    expect(toggleTerm("gpt", "state:failed")).toBe("gpt state:failed");
    expect(toggleTerm("state:failed gpt", "state:failed")).toBe("gpt");
  });
  it("go to the daemon with the sort, but without groups and what it refuses", () => {
    expect(daemonQuery('state:failed "no space" lr>=1 sort:-lr group:lr')).toBe(
      'state:failed "no space" lr>=1 sort:-lr',
    );
    expect(daemonQuery("gpt loss<x sort:reason")).toBe("gpt");
    expect(daemonQuery("group:project")).toBe("");
  });
});

it("selects from 100,000 runs in less than 100 ms of a processor", () => {
  const many = Array.from({ length: 100_000 }, (_, index) =>
    run({ id: `default/${index}`, name: `gpt-${index}`, latest: { "train/loss": index % 97 } }),
  );
  selectRuns(many, parseQuery("gpt-7 train/loss<50"));
  const times = [1, 2, 3].map(() => {
    const begin = process.cpuUsage();
    expect(selectRuns(many, parseQuery("gpt-99 train/loss<50 -state:failed"))).not.toEqual([]);
    return process.cpuUsage(begin).user / 1000;
  });
  expect(Math.min(...times)).toBeLessThan(100);
});
