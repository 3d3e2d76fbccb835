import { expect, it } from "vitest";
import type { Run } from "../../api/types";
import { asCsv, asMarkdown, asText, differencesOf } from "./differences";

function run(id: string, args: string[], latest: Record<string, number | string> = {}): Run {
  return {
    id,
    state: "succeeded",
    latest,
    running_seconds: 1,
    cost: { so_far_minutes: 1 },
    origin: { git_commit: "", git_dirty: false },
    spec: { command: ["python", "t.py", ...args], needs: {}, working_folder: "/a", nodes: 1 },
  } as unknown as Run;
}

const a = run("demo/1", ["--lr", "1", "--seed", "7"], { loss: 2 });
const b = run("demo/2", ["--lr", "2", "--seed", "7"], { loss: 1 });
const c = run("demo/3", ["--seed", "7"], { loss: "NaN" });

it("has the settings that differ, and no others", () => {
  const settings = differencesOf([a, b, c]).filter((row) => row.section === "Settings");
  expect(settings).toEqual([{ section: "Settings", name: "lr", values: ["1", "2", null] }]);
});

it("marks the least loss, and never NaN", () => {
  const loss = differencesOf([c, a, b]).find((row) => row.name === "loss");
  expect(loss?.best).toBe(2);
  expect(loss?.values).toEqual(["NaN", "2", "1"]);
});

it("of equal runs has results only", () => {
  expect(new Set(differencesOf([a, a]).map((row) => row.section))).toEqual(new Set(["Results"]));
});

it("can be pasted into a spreadsheet", () => {
  const text = asText([a, b], differencesOf([a, b]));
  expect(text.split("\n")[0]).toBe("\tdemo/1\tdemo/2");
  expect(text).toContain("lr\t1\t2");
});

it("can be copied as Markdown and CSV, with their separators escaped", () => {
  const rows = [{ section: "Settings" as const, name: "a|b", values: ["1,5", 'say "x"'] }];
  expect(asMarkdown([a, b], rows).split("\n")).toEqual([
    "|  | demo/1 | demo/2 |",
    "| --- | --- | --- |",
    '| a\\|b | 1,5 | say "x" |',
  ]);
  expect(asCsv([a, b], rows)).toBe(',demo/1,demo/2\r\na|b,"1,5","say ""x"""');
});
