import type { Queue } from "../../api/types";
import { parseDuration } from "../../text/format";

export interface TimelineRow {
  key: string;
  id: string;
  name: string;
  /** No other run delays the start of a run that is reserved. */
  kind: "running" | "reserved" | "waiting";
  from: number;
  to: number;
  /** The bound of the start; null: there is none. */
  latest: number | null;
  /** The run that must end or start first; empty: unknown. */
  blocker: string;
}

/** Running runs from now to their limit, waiting ones from their expected start to their limit. */
export function timelineOf(queue: Queue, now: number): { rows: TimelineRow[]; end: number } {
  const running = queue.allocations.map((run, index) => ({
    key: `a${run.run || index}`,
    id: run.run,
    name: run.name || run.run,
    kind: "running" as const,
    from: now,
    to: Math.max(now, Date.parse(run.expected_end)),
    latest: null,
    blocker: "",
  }));
  const waiting = queue.waiting.flatMap((run, index) => {
    if (!run.expected_start) return [];
    const from = Math.max(now, Date.parse(run.expected_start));
    const to = from + parseDuration(run.timeout) * 1000;
    return [
      {
        key: `w${run.run || index}`,
        id: run.run,
        name: run.name || run.run,
        kind: run.reserved ? ("reserved" as const) : ("waiting" as const),
        from,
        to,
        latest: run.latest_start ? Math.max(from, Date.parse(run.latest_start)) : null,
        blocker: run.blocker ?? "",
      },
    ];
  });
  const rows = [...running, ...waiting].sort((a, b) => a.from - b.from || a.to - b.to);
  return { rows, end: Math.max(now + 60_000, ...rows.map((row) => row.to)) };
}

const steps = [60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

/** Seconds from now at which the axis has a label: whole units, at most seven. */
export function ticksOf(seconds: number): number[] {
  const step = steps.find((each) => seconds / each <= 6) ?? seconds;
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, index) => index * step);
}
