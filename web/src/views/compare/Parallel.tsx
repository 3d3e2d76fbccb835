import { useMemo, useState } from "react";
import type { Run } from "../../api/types";
import { useParameter } from "../../app/router";
import { WideBox } from "../../parts/WideBox";
import { type Axis, axisNames, axisOf, firstAxes } from "./axes";
import { valueText } from "./valueText";

const height = 240;
const top = 44;
const side = 90;
const gapMin = 150;
const widthMin = 600;
const most = 10;

/** A line for each run through its settings and results. */
export function Parallel({ runs }: { runs: readonly Run[] }) {
  const [text, setText] = useParameter("axes");
  const names = useMemo(
    () => (text ? text.split(",") : firstAxes(runs)).slice(0, most),
    [text, runs],
  );
  const axes = useMemo(() => names.map((name) => axisOf(runs, name)), [runs, names]);
  const [hovered, setHovered] = useState<number | null>(null);
  const gaps = Math.max(1, axes.length - 1);
  const gap = Math.max(gapMin, (widthMin - 2 * side) / gaps);
  const width = 2 * side + gap * gaps;
  const x = (index: number) => side + index * gap;
  const unused = axisNames(runs).filter((name) => !names.includes(name));
  return (
    <section className="card">
      <header className="wraps">
        <h2>Parallel coordinates</h2>
        <span className="grow muted clip">
          {hovered !== null && hoverText(runs[hovered], axes, hovered)}
        </span>
        <select
          className="input"
          aria-label="Add an axis"
          value=""
          disabled={names.length >= most}
          onChange={(event) => setText([...names, event.target.value].join(","))}
        >
          <option value="">Add an axis</option>
          {unused.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </header>
      <WideBox label="Parallel coordinates">
        <svg
          className="parallel"
          width="100%"
          style={{ minWidth: Math.min(width, 640) }}
          viewBox={`0 0 ${width} ${height + top + 20}`}
          role="img"
          aria-label={`Settings and results of ${runs.length} runs`}
        >
          {runs.map((run, index) => (
            // biome-ignore lint/a11y/noStaticElementInteractions: the table of differences has the values for keys.
            <path
              key={run.id}
              className={`line c${index % 10} ${dimmed(hovered, index)}`}
              d={pathOf(axes, index, x)}
              onMouseEnter={() => setHovered(index)}
              onMouseLeave={() => setHovered(null)}
            />
          ))}
          {axes.map((axis, index) => (
            <g key={axis.name} transform={`translate(${x(index)} ${top})`}>
              <line className="axis" y1={0} y2={height} />
              <AxisName
                name={axis.name}
                remove={() => setText(names.filter((name) => name !== axis.name).join(","))}
              />
              {shownTicks(axis).map(({ at, label }) => (
                <g key={label} transform={`translate(0 ${height * (1 - at)})`}>
                  <line className="axis" x1={-4} x2={0} />
                  <text className="tick" x={-8} dy="0.32em" textAnchor="end">
                    {shorten(label, 12)}
                  </text>
                </g>
              ))}
            </g>
          ))}
        </svg>
      </WideBox>
    </section>
  );
}

function AxisName({ name, remove }: { name: string; remove: () => void }) {
  return (
    <text className="axis-name" y={-18} textAnchor="middle">
      <title>{name}</title>
      {shorten(name, 18)}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the address has the axes as well. */}
      <tspan className="remove" dx="5" onClick={remove}>
        ×
      </tspan>
    </text>
  );
}

/** Many texts would cover each other. */
function shownTicks({ ticks }: Axis): Axis["ticks"] {
  const every = Math.ceil(ticks.length / 12);
  return ticks.filter((_, index) => index % every === 0);
}

/** Beside a value that is missing the line has a gap. */
function pathOf(axes: readonly Axis[], run: number, x: (index: number) => number): string {
  let path = "";
  let move = true;
  axes.forEach(({ places }, index) => {
    const place = places[run] ?? null;
    if (place !== null) path += `${move ? "M" : "L"}${x(index)} ${top + height * (1 - place)}`;
    move = place === null;
  });
  return path;
}

function dimmed(hovered: number | null, index: number): string {
  if (hovered === null) return "";
  return hovered === index ? "strong" : "dim";
}

function hoverText(run: Run | undefined, axes: readonly Axis[], index: number): string {
  const parts = axes.map(({ name, values }) => `${name} ${valueText(values[index] ?? null)}`);
  return `${run?.name} ${run?.id}: ${parts.join(", ")}`;
}

function shorten(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
