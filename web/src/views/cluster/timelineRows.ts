import type { Queue } from "../../api/types";
import { parseDuration } from "../../text/format";

export interface TimelineRow {
  key: string;
  id: string;
  name: string;
  kind: "running" | "waiting";
  from: number;
  to: number;
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
        kind: "waiting" as const,
        from,
        to,
      },
    ];
  });
  const rows = [...running, ...waiting].sort((a, b) => a.from - b.from || a.to - b.to);
  return { rows, end: Math.max(now + 60_000, ...rows.map((row) => row.to)) };
}
