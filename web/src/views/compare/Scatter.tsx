import { useMemo, useState } from "react";
import type { Run } from "../../api/types";
import { navigate, runPath, useParameter } from "../../app/router";
import { type Axis, axisNames, axisOf, firstAxes, mainMetric } from "./axes";
import { valueText } from "./valueText";

const width = 600;
const height = 240;
const left = 70;
const bottom = 34;
const across = width - left - 20;
/** Dots keep away from the edges. */
const inset = (at: number) => 0.04 + 0.92 * at;

/** A dot for each run, by two of its settings or results. */
export function Scatter({ runs }: { runs: readonly Run[] }) {
  const [chosenX, setX] = useParameter("sx");
  const [chosenY, setY] = useParameter("sy");
  const names = useMemo(() => axisNames(runs), [runs]);
  const [xName, yName] = [
    chosenX || (firstAxes(runs)[0] ?? ""),
    chosenY || (mainMetric(runs) ?? "step"),
  ];
  const x = useMemo(() => axisOf(runs, xName), [runs, xName]);
  const y = useMemo(() => axisOf(runs, yName), [runs, yName]);
  const [hovered, setHovered] = useState<number | null>(null);
  return (
    <section className="card">
      <header className="wraps">
        <h2>Scatter</h2>
        <Choice label="Across" value={xName} names={names} choose={setX} />
        <Choice label="Up" value={yName} names={names} choose={setY} />
        <span className="grow muted clip">
          {hovered !== null && hoverText(runs[hovered], x, y, hovered)}
        </span>
      </header>
      <svg
        className="scatter"
        width="100%"
        viewBox={`0 0 ${width} ${height + bottom + 16}`}
        role="img"
        aria-label={`${yName} by ${xName} of ${runs.length} runs`}
      >
        <g transform={`translate(${left} 16)`}>
          {y.ticks.map(({ at, label }) => (
            <g key={label} transform={`translate(0 ${height * (1 - inset(at))})`}>
              <line className="grid" x2={across} />
              <text className="tick" x={-8} dy="0.32em" textAnchor="end">
                {label.slice(0, 10)}
              </text>
            </g>
          ))}
          {x.ticks.map(({ at, label }) => (
            <g key={label} transform={`translate(${inset(at) * across} ${height})`}>
              <line className="axis" y2={4} />
              <text className="tick" y={18} textAnchor="middle">
                {label.slice(0, 14)}
              </text>
            </g>
          ))}
          <line className="axis" y1={height} y2={height} x2={across} />
          {runs.map((run, index) => {
            const [xPlace, yPlace] = [x.places[index] ?? null, y.places[index] ?? null];
            if (xPlace === null || yPlace === null) return null;
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: the list of runs above has links for keys.
              <circle
                key={run.id}
                className={`dot c${index % 10}`}
                cx={inset(xPlace) * across}
                cy={height * (1 - inset(yPlace))}
                r={hovered === index ? 7 : 5}
                onMouseEnter={() => setHovered(index)}
                onMouseLeave={() => setHovered(null)}
                onClick={() => navigate(runPath(run.id))}
              >
                <title>{hoverText(run, x, y, index)}</title>
              </circle>
            );
          })}
        </g>
      </svg>
    </section>
  );
}

function Choice(props: {
  label: string;
  value: string;
  names: readonly string[];
  choose: (name: string) => void;
}) {
  const { label, value, names, choose } = props;
  return (
    <label className="row muted">
      {label}
      <select
        className="input scatter-axis"
        value={value}
        onChange={(event) => choose(event.target.value)}
      >
        {[...new Set([value, ...names])].map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function hoverText(run: Run | undefined, x: Axis, y: Axis, index: number): string {
  const part = ({ name, values }: Axis) => `${name} ${valueText(values[index] ?? null)}`;
  return `${run?.name} ${run?.id}: ${part(x)}, ${part(y)}`;
}
