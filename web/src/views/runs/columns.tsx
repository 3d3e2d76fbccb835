// The columns of the table of runs. A column's id is the name of its field in the query line.
import type { ReactNode } from "react";
import { runningSeconds } from "../../api/running";
import { type Run, toNumber } from "../../api/types";
import { useNow } from "../../app/now";
import { Link, runPath } from "../../app/router";
import { StateBadge } from "../../parts/StateBadge";
import { Time } from "../../parts/Time";
import { fieldValue, isField, type Value } from "../../query/fields";
import { formatExact, formatMinutes, formatNumber, formatSeconds } from "../../text/format";
import { settingsOf } from "../../text/settings";
import { Reason } from "./Reason";
import { SparkCell } from "./SparkCell";

export interface ColumnView {
  id: string;
  label: string;
  width: number;
  right?: boolean;
  /** An aggregate over runs as text; absent: as a plain number. */
  format?: (value: number) => string;
  cell: (run: Run) => ReactNode;
}

const text = (value: Value) => (value === null || value === "" ? dash : String(value));
const dash = <span className="faint">–</span>;

export const knownColumns: ColumnView[] = [
  { id: "name", label: "Name", width: 260, cell: (run) => <NameCell run={run} /> },
  { id: "state", label: "State", width: 108, cell: (run) => <StateBadge run={run} /> },
  { id: "reason", label: "Reason", width: 180, cell: (run) => <Reason run={run} /> },
  {
    id: "progress",
    label: "Progress",
    width: 120,
    format: (share) => `${Math.floor(share * 100)} %`,
    cell: (run) => <ProgressCell run={run} />,
  },
  {
    id: "step",
    label: "Step",
    width: 84,
    right: true,
    cell: (run) => number(fieldValue(run, "step")),
  },
  {
    id: "running",
    label: "Running",
    width: 84,
    right: true,
    format: formatSeconds,
    cell: (run) => <Running run={run} />,
  },
  {
    id: "submitted",
    label: "Submitted",
    width: 90,
    right: true,
    cell: (run) => <Time at={run.submitted} />,
  },
  { id: "ended", label: "Ended", width: 96, right: true, cell: (run) => <Time at={run.ended} /> },
  {
    id: "devices",
    label: "Devices",
    width: 72,
    right: true,
    cell: (run) => number(fieldValue(run, "devices")),
  },
  { id: "nodes", label: "Nodes", width: 72, right: true, cell: (run) => number(run.spec.nodes) },
  { id: "user", label: "User", width: 88, cell: (run) => text(run.origin.user) },
  { id: "project", label: "Project", width: 100, cell: (run) => text(run.spec.project) },
  { id: "class", label: "Class", width: 92, cell: (run) => text(run.spec.class) },
  {
    id: "priority",
    label: "Priority",
    width: 76,
    right: true,
    cell: (run) => number(run.priority),
  },
  {
    id: "cost",
    label: "Cost",
    width: 92,
    right: true,
    format: formatMinutes,
    cell: (run) => formatMinutes(Number(run.cost.so_far_minutes)),
  },
  {
    id: "commit",
    label: "Commit",
    width: 96,
    cell: (run) => <code>{run.origin.git_commit.slice(0, 8)}</code>,
  },
  {
    id: "command",
    label: "Command",
    width: 320,
    cell: (run) => <code>{run.spec.command.join(" ")}</code>,
  },
  { id: "note", label: "Note", width: 220, cell: (run) => text(run.note) },
];

export const firstColumns = [
  "name",
  "state",
  "reason",
  "progress",
  "running",
  "submitted",
  "devices",
  "user",
];

/** A column of a metric, a setting or a tag. Settings and tags are shown as they were written. */
export function valueColumn(id: string): ColumnView {
  const cell = (run: Run) => {
    const metric = run.latest[id];
    return metric === undefined ? text(writtenValue(run, id)) : number(toNumber(metric));
  };
  return { id, label: id, width: 112, right: true, cell };
}

function writtenValue(run: Run, id: string): Value {
  return isField(id) ? fieldValue(run, id) : (settingsOf(run.spec.command)[id] ?? null);
}

const curve = "curve:";

/** The id of a column with the curve of a metric. */
export function curveColumn(metric: string): string {
  return curve + metric;
}

/** What a column sorts by: of a curve its metric. */
export function sortField(id: string): string {
  return id.startsWith(curve) ? id.slice(curve.length) : id;
}

export function columnOf(id: string): ColumnView {
  const known = knownColumns.find((column) => column.id === id);
  if (known) return known;
  if (!id.startsWith(curve)) return valueColumn(id);
  const metric = sortField(id);
  return {
    id,
    label: metric,
    width: 178,
    right: true,
    cell: (run) => <SparkCell run={run} metric={metric} />,
  };
}

function number(value: Value): ReactNode {
  if (value === null) return dash;
  return typeof value === "number" ? formatNumber(value) : value;
}

function NameCell({ run }: { run: Run }) {
  return (
    <span className="row">
      <Link
        className="run-name clip"
        href={runPath(run.id)}
        title={`${run.name}\n${run.id}`}
        tabIndex={-1}
      >
        {run.name}
      </Link>
      <span className="faint run-id">{run.id}</span>
      <Tags tags={run.tags} />
    </span>
  );
}

/** The tags for which there is room; the others are in the tip. */
function Tags({ tags }: { tags: Run["tags"] }) {
  const texts = Object.entries(tags).map(([key, value]) => (value ? `${key}=${value}` : key));
  if (texts.length === 0) return null;
  return (
    <span className="run-tags" title={texts.join("\n")}>
      {texts.slice(0, 3).map((each) => (
        <span className="tag" key={each}>
          {each}
        </span>
      ))}
    </span>
  );
}

function Running({ run }: { run: Run }) {
  const now = useNow();
  const seconds = runningSeconds(run, now);
  if (seconds <= 0) return dash;
  const title = run.started ? `Since ${formatExact(Date.parse(run.started))}` : undefined;
  return <span title={title}>{formatSeconds(seconds)}</span>;
}

function ProgressCell({ run }: { run: Run }) {
  const progress = run.progress;
  if (!progress) return dash;
  if (!progress.steps) return <span className="muted">step {formatNumber(progress.step)}</span>;
  const share = Math.min(1, progress.step / progress.steps);
  return (
    <span className="row" title={`step ${progress.step} of ${progress.steps}`}>
      <span className="progress grow">
        <div style={{ width: `${share * 100}%` }} />
      </span>
      <span className="muted progress-text">{Math.floor(share * 100)} %</span>
    </span>
  );
}
