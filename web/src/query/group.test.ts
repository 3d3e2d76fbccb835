import { describe, expect, it } from "vitest";
import type { Run } from "../api/types";
import { settingsOf } from "../text/settings";
import { aggregateOf, groupChoices, groupRuns, rowsOf } from "./group";
import { parseQuery, setGroup } from "./parse";

function run(id: string, changes: Partial<Run> & { command?: string[] } = {}): Run {
  const { command = ["python", "t.py"], ...rest } = changes;
  const spec = { project: id.split("/")[0], command, nodes: 1, devices: 2, remainder: 0 };
  return { id, state: "succeeded", tags: {}, latest: {}, spec, ...rest } as unknown as Run;
}

const runs = [
  run("a/3", { latest: { loss: 2 }, command: ["t", "--lr", "0.1"], tags: { team: "nlp" } }),
  run("b/1", { latest: { loss: "NaN" }, command: ["t", "--lr", "0.2"] }),
  run("a/1", { latest: { loss: 4 }, command: ["t", "--lr", "0.1"], state: "failed" }),
];

describe("groups of runs", () => {
  it("have equal values of a field, tag or setting, the group of the first run first", () => {
    const ids = (field: string) =>
      groupRuns(runs, field).map(({ key, runs: list }) => [key, list.map(({ id }) => id)]);
    expect(ids("project")).toEqual([
      ["a", ["a/3", "a/1"]],
      ["b", ["b/1"]],
    ]);
    expect(ids("lr").map(([key]) => key)).toEqual(["0.1", "0.2"]);
    expect(ids("tag.team").map(([key]) => key)).toEqual(["nlp", ""]);
  });

  it("count their states, the most frequent first", () => {
    expect(groupRuns([...runs, run("a/4")], "project")[0]?.states).toEqual([
      ["succeeded", 2],
      ["failed", 1],
    ]);
  });

  it("add up what runs use and average the rest, without values that are not finite", () => {
    expect(aggregateOf(runs, "devices")).toMatchObject({ kind: "sum", value: 6 });
    expect(aggregateOf(runs, "loss")).toEqual({
      kind: "mean",
      value: 3,
      least: 2,
      greatest: 4,
      count: 2,
    });
    expect(aggregateOf(runs, "reward")).toBeNull();
  });

  it("show their runs when they are open", () => {
    const rows = rowsOf(runs, groupRuns(runs, "project"), new Set(["a"]));
    expect(rows.map((row) => (row.kind === "run" ? row.run.id : row.group.key))).toEqual([
      "a",
      "a/3",
      "a/1",
      "b",
    ]);
  });

  it("are offered by fields, tags and the settings that differ", () => {
    const choices = groupChoices(runs, (each) => settingsOf(each.spec.command));
    expect(choices).toEqual(["project", "state", "user", "class", "tag.team", "lr"]);
  });
});

it("a query line has one field of groups, which is no filter", () => {
  expect(parseQuery("state:failed group:tag.team")).toMatchObject({ group: "tag.team" });
  expect(parseQuery("group:lr").terms).toEqual([]);
  expect(setGroup("lr>1 group:lr sort:-lr", "project")).toBe("lr>1 sort:-lr group:project");
  expect(setGroup("lr>1 group:lr", "")).toBe("lr>1");
});
