import type { Queue } from "../../api/types";
import { Link, runPath } from "../../app/router";
import { formatAgo, formatExact, formatSecondsTick } from "../../text/format";
import { ticksOf, timelineOf } from "./timelineRows";

const most = 14;

/** When running runs end at the latest, and when waiting ones start. */
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
              title={`${formatAgo(row.from, now)} to ${formatAgo(row.to, now)}\n${formatExact(row.from)} to ${formatExact(row.to)}`}
              style={{ left: percent(row.from), right: `calc(100% - ${percent(row.to)})` }}
            />
          </div>
        </div>
      ))}
      {rows.length > most && <span className="faint">and {rows.length - most} more</span>}
    </div>
  );
}
