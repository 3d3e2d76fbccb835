import type { Queue } from "../../api/types";
import { Link, runPath } from "../../app/router";
import { formatAgo, formatExact, formatSecondsTick } from "../../text/format";
import { type TimelineRow, ticksOf, timelineOf } from "./timelineRows";

const most = 14;

/** When running runs end at the latest, and when waiting ones start: reserved, expected, latest. */
export function Timeline({ queue, now }: { queue: Queue; now: number }) {
  const { rows, end } = timelineOf(queue, now);
  if (rows.length === 0) return null;
  const percent = (time: number) =>
    `${(Math.min(Math.max(time - now, 0), end - now) / (end - now)) * 100}%`;
  return (
    <div className="timeline">
      <div className="timeline-axis">
        {ticksOf((end - now) / 1000).map((seconds) => (
          <span key={seconds} className="faint" style={{ left: percent(now + seconds * 1000) }}>
            {seconds === 0 ? "now" : formatSecondsTick(seconds)}
          </span>
        ))}
      </div>
      {rows.slice(0, most).map((row) => (
        <div className="timeline-row" key={row.key}>
          {row.id ? (
            <Link className="clip" href={runPath(row.id)} title={row.id}>
              {row.name}
            </Link>
          ) : (
            <span className="faint clip">another project</span>
          )}
          <div className="timeline-lane">
            <div
              className={`timeline-bar ${row.kind}`}
              title={tip(row, now)}
              style={{ left: percent(row.from), right: `calc(100% - ${percent(row.to)})` }}
            />
            {row.latest !== null && row.latest > row.from && (
              <div
                className={`timeline-latest ${row.latest > end ? "beyond" : ""}`}
                style={{ left: percent(row.from), right: `calc(100% - ${percent(row.latest)})` }}
              />
            )}
          </div>
        </div>
      ))}
      {rows.length > most && <span className="faint">and {rows.length - most} more</span>}
      <Key rows={rows} />
    </div>
  );
}

function tip(row: TimelineRow, now: number): string {
  const lines = [
    row.kind === "running"
      ? `ends ${formatAgo(row.to, now)} at the latest`
      : `starts ${formatAgo(row.from, now)}, by an estimate`,
    `${formatExact(row.from)} to ${formatExact(row.to)}`,
  ];
  if (row.latest !== null)
    lines.push(`starts ${formatAgo(row.latest, now)} at the latest: ${formatExact(row.latest)}`);
  if (row.kind === "reserved") lines.push("its devices are reserved: no run behind it delays it");
  if (row.blocker) lines.push(`waits for ${row.blocker}`);
  return lines.join("\n");
}

const keys = [
  ["running", "runs, up to its time limit"],
  ["reserved", "its start is reserved"],
  ["waiting", "its expected start"],
] as const;

/** The kinds of bars that are there. */
function Key({ rows }: { rows: TimelineRow[] }) {
  return (
    <ul className="timeline-key muted">
      {keys
        .filter(([kind]) => rows.some((row) => row.kind === kind))
        .map(([kind, text]) => (
          <li key={kind}>
            <i className={`timeline-bar ${kind}`} /> {text}
          </li>
        ))}
      {rows.some((row) => row.latest !== null && row.latest > row.from) && (
        <li>
          <i className="timeline-latest" /> its latest start
        </li>
      )}
    </ul>
  );
}
