import { formatMinutes } from "../../text/format";
import type { Burn, Point } from "./burn";

const width = 1120;
const height = 220;
const left = 64;
const bottom = 22;
const top = 10;

/** What is left over time, against even use, with the forecast. */
export function BurnChart({ burn, now }: { burn: Burn; now: number }) {
  const x = (time: number) =>
    left + ((time - burn.from) / (burn.to - burn.from)) * (width - left - 8);
  const y = (minutes: number) => height - bottom - (minutes / burn.most) * (height - top - bottom);
  const line = (points: readonly Point[]) =>
    points.map(({ time, minutes }) => `${x(time).toFixed(1)},${y(minutes).toFixed(1)}`).join(" ");
  const labels = [0, 0.5, 1].map((share) => share * burn.most);
  return (
    <figure className="burn">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label="What is left over time">
        {labels.map((minutes) => (
          <g key={minutes}>
            <line className="grid" x1={left} x2={width - 8} y1={y(minutes)} y2={y(minutes)} />
            <text x={left - 8} y={y(minutes) + 4} textAnchor="end">
              {minutes === 0 ? "0" : formatMinutes(minutes)}
            </text>
          </g>
        ))}
        {dates(burn).map(({ time, anchor }) => (
          <text key={time} x={x(time)} y={height - 4} textAnchor={anchor}>
            {formatDate(time, burn.to - burn.from)}
          </text>
        ))}
        <line className="now" x1={x(now)} x2={x(now)} y1={top} y2={height - bottom} />
        <polyline className="plan" points={line(burn.plan)} />
        <polyline className="forecast" points={line(burn.forecast)} />
        <polyline className="left" points={line(burn.left)} />
      </svg>
      <figcaption className="muted legend">
        <i className="key left" /> left <i className="key plan" /> even use of the grants{" "}
        <i className="key forecast" /> forecast by the last 7 days
      </figcaption>
    </figure>
  );
}

function dates({ from, to }: Burn) {
  return [
    { time: from, anchor: "start" as const },
    { time: (from + to) / 2, anchor: "middle" as const },
    { time: to, anchor: "end" as const },
  ];
}

function formatDate(time: number, span: number): string {
  const date = new Date(time);
  if (span < 2 * 86_400_000)
    return date.toLocaleTimeString(undefined, {
      hour: "2-digit",
      minute: "2-digit",
      hour12: false,
    });
  return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
}
