// A specification as rows of name and text, with what was left at its default left out.
import type { Run, Spec } from "../../../api/types";

const shownElsewhere = new Set([
  "command",
  "env",
  "name",
  "working_folder",
  "upload",
  "project",
  "needs",
]);

export function specRows(run: Pick<Run, "spec">): [string, string][] {
  const rows: [string, string][] = [];
  for (const [name, value] of Object.entries(run.spec)) {
    if (!shownElsewhere.has(name)) addRow(rows, name, value);
  }
  for (const [name, value] of Object.entries(run.spec.needs)) addRow(rows, `needs.${name}`, value);
  return rows;
}

function addRow(rows: [string, string][], name: string, value: unknown): void {
  const text = valueText(value);
  if (text !== null) rows.push([name.replaceAll("_", " "), text]);
}

/** Null: nothing was asked for. */
function valueText(value: unknown): string | null {
  if (value === null || value === undefined || value === "" || value === "0 B") return null;
  if (value === false || value === 0) return null;
  if (Array.isArray(value)) return value.length > 0 ? value.join(", ") : null;
  if (typeof value === "object") {
    const parts = Object.entries(value).flatMap(([key, each]) => {
      const text = valueText(each);
      return text === null ? [] : [`${key}: ${text}`];
    });
    return parts.length > 0 ? parts.join(", ") : null;
  }
  return String(value);
}

/** All fields of a specification as flat names, for differences of runs. */
export function flatSpec(spec: Spec): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of specRows({ spec })) flat[name] = value;
  flat["working folder"] = spec.working_folder;
  return flat;
}
