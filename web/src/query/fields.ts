// The fields of a run that queries, sorts and columns name. Any other name is a metric or a setting.
import { type Run, toNumber } from "../api/types";
import { parseDuration } from "../text/format";
import { settingsOf } from "../text/settings";

export type Value = string | number | null;

const fields: Record<string, (run: Run) => Value> = {
  id: (run) => run.id,
  name: (run) => run.name,
  project: (run) => run.spec.project,
  state: (run) => (run.held && run.state === "queued" ? "held" : run.state),
  reason: (run) => run.reason,
  user: (run) => run.origin.user,
  command: (run) => run.spec.command.join(" "),
  class: (run) => run.spec.class,
  nodes: (run) => run.spec.nodes,
  devices: (run) => run.spec.nodes * run.spec.devices + run.spec.remainder,
  priority: (run) => run.priority,
  step: (run) => run.progress?.step ?? null,
  progress: (run) => (run.progress?.steps ? run.progress.step / run.progress.steps : null),
  submitted: (run) => Date.parse(run.submitted),
  started: (run) => (run.started ? Date.parse(run.started) : null),
  ended: (run) => (run.ended ? Date.parse(run.ended) : null),
  running: (run) => toNumber(run.running_seconds),
  timeout: (run) => (run.spec.timeout ? parseDuration(run.spec.timeout) : null),
  cost: (run) => toNumber(run.cost.so_far_minutes),
  commit: (run) => run.origin.git_commit,
  note: (run) => run.note,
  host: (run) =>
    run.attempts
      .at(-1)
      ?.nodes.map((node) => node.host)
      .join(" ") ?? null,
};

export const fieldNames = Object.keys(fields);

const tagPrefix = "tag.";

/** If the name is a field or a tag: neither a metric nor a setting. */
export function isField(name: string): boolean {
  return name in fields || name.startsWith(tagPrefix);
}

/** The value of a field, tag (tag.team), metric or setting (an argument such as --lr 3e-4). */
export function fieldValue(run: Run, name: string): Value {
  const field = fields[name];
  if (field) return field(run);
  if (name.startsWith(tagPrefix)) return run.tags[name.slice(tagPrefix.length)] ?? null;
  const metric = run.latest[name];
  if (metric !== undefined) return toNumber(metric);
  const setting = settingsOf(run.spec.command)[name];
  if (setting === undefined) return null;
  return isPlainNumber(setting) ? Number(setting) : setting;
}

/** As settings have numbers: 0x10, 1h and inf are texts. */
function isPlainNumber(text: string): boolean {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text));
}

/** A field whose value is a time. */
export function isTime(name: string): boolean {
  return name === "submitted" || name === "started" || name === "ended";
}
