import { type ReactNode, useCallback, useMemo, useRef, useState } from "react";
import { formatExact, formatNumber, formatSeconds, formatTick } from "../text/format";
import { Chart } from "./Chart";
import { paletteSize } from "./chartOptions";
import "./charts.css";
import { axisMetric, buildLines, type ChartData, type Curve, type XAxis } from "./lines";
import { type Mark, type PlacedMark, placeMarks } from "./marks";
import type { SharedZoom, Zoom } from "./zoom";

export interface ChartSettings {
  axis: XAxis;
  smoothing: number;
  log: boolean;
  band: boolean;
  zoom: SharedZoom;
  /** The zoom for which points are read. */
  restedZoom: Zoom;
  syncKey: string;
}

interface Props {
  title: string;
  curves: readonly Curve[];
  settings: ChartSettings;
  marks?: readonly Mark[];
  format?: (value: number) => string;
  tick?: (value: number) => string;
  binary?: boolean;
  note?: ReactNode;
  height?: number;
}

const noMarks: readonly Mark[] = [];

/** One metric: its title, the values below the pointer, and its chart. */
export function ChartCard(props: Props) {
  const { title, curves, settings, marks = noMarks, format = formatNumber, height = 190 } = props;
  const { axis, smoothing, log, band } = settings;
  const data = useMemo(
    () => buildLines(curves, { axis, smoothing, log, band }),
    [curves, axis, smoothing, log, band],
  );
  const placed = useMemo(() => placeMarks(marks, curves, axis), [marks, curves, axis]);
  const [hover, setHover] = useState<number | null>(null);
  const [mark, setMark] = useState<PlacedMark | null>(null);
  const pending = useRef(0);
  const onHover = useCallback((index: number | null, near: PlacedMark | null) => {
    cancelAnimationFrame(pending.current);
    pending.current = requestAnimationFrame(() => {
      setHover(index);
      setMark(near);
    });
  }, []);
  const empty = data.x.length === 0;
  return (
    <section className="card chart-card" aria-label={title}>
      <header>
        <h2 className="clip" title={title}>
          {title}
        </h2>
        {data.holes.length > 0 && (
          <span
            className="chart-holes"
            title="Values that are NaN or infinite, marked below the curve"
          >
            {data.holes.length} not finite
          </span>
        )}
        {props.note}
        <span className="grow" />
        {mark && (
          <span className={`chart-mark clip ${mark.kind}`} title={mark.label}>
            {mark.label}
          </span>
        )}
        <span className="faint chart-x">{hover !== null && xText(data.x[hover], axis)}</span>
      </header>
      <Values data={data} hover={hover} format={format} />
      {empty ? (
        <div className="chart-empty" style={{ height }}>
          {log ? "No value above 0 to draw on a log scale" : "No points yet"}
        </div>
      ) : (
        <Chart
          data={data}
          marks={placed}
          height={height}
          axis={axis}
          log={log}
          syncKey={settings.syncKey}
          tick={props.tick ?? formatTick}
          binary={props.binary ?? false}
          zoom={settings.zoom}
          onHover={onHover}
        />
      )}
    </section>
  );
}

function xText(x: number | undefined, axis: XAxis): string {
  if (x === undefined) return "";
  if (axis === "step") return `step ${x.toLocaleString("en-US")}`;
  const metric = axisMetric(axis);
  if (metric !== null) return `${metric.split("/").at(-1)} ${formatNumber(x)}`;
  return axis === "time" ? formatExact(x * 1000) : `after ${formatSeconds(x)}`;
}

const shown = 6;

/** The values below the pointer, or the last ones. */
function Values(props: {
  data: ChartData;
  hover: number | null;
  format: (value: number) => string;
}) {
  const { data, hover, format } = props;
  const at = hover ?? data.x.length - 1;
  const lines = data.lines.filter((line) => line.kind === "line");
  const low = valueAt(data, "low", at);
  const high = valueAt(data, "high", at);
  return (
    <div className="chart-values">
      {lines.slice(0, shown).map((line, index) => {
        const value = valueNear(line.values, at);
        return (
          <span key={`${line.label}${index}`} className="chart-value">
            <i className={`swatch c${line.color % paletteSize}`} />
            <span className="muted clip">{line.label}</span>
            <b>{value === null ? "–" : format(value)}</b>
          </span>
        );
      })}
      {low !== null && high !== null && low !== high && (
        <span className="chart-value">
          <i className="swatch c0 low" />
          <span className="muted">range</span>
          <b>
            {format(low)} … {format(high)}
          </b>
        </span>
      )}
      {lines.length > shown && <span className="faint">and {lines.length - shown} more</span>}
    </div>
  );
}

function valueAt(data: ChartData, kind: "low" | "high", at: number): number | null {
  const line = data.lines.find((each) => each.kind === kind);
  return line ? valueNear(line.values, at) : null;
}

function valueNear(values: readonly (number | null)[], index: number): number | null {
  for (let far = 0; far < 200; far += 1) {
    const value = values[index - far] ?? values[index + far];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
