import { setParameters } from "../app/router";
import { Switch } from "../parts/Switch";
import type { ChartSettings } from "./ChartCard";
import { axisMetric, type XAxis } from "./lines";
import { useIsZoomed } from "./zoom";

const axes: readonly [XAxis, string][] = [
  ["step", "Step"],
  ["relative", "Relative time"],
  ["time", "Time"],
];

interface Props {
  settings: ChartSettings;
  axes?: readonly XAxis[];
  /** Metrics that may be the x axis. */
  metrics?: readonly string[];
  ranks?: boolean;
  search?: { text: string; set: (text: string) => void };
}

/** The axis, smoothing and scale of all charts of a view. */
export function ChartTools({ settings, ranks, search, axes: offered, metrics }: Props) {
  const isZoomed = useIsZoomed(settings.zoom);
  return (
    <div className="chart-tools">
      {search && (
        <input
          className="input"
          type="search"
          placeholder="Find a metric"
          aria-label="Find a metric"
          value={search.text}
          onChange={(event) => search.set(event.target.value)}
        />
      )}
      {metrics ? (
        <AxisSelect axis={settings.axis} metrics={metrics} />
      ) : (
        <Switch
          label="x axis"
          value={settings.axis}
          choices={axes.filter(([axis]) => offered?.includes(axis) ?? true)}
          choose={setAxis}
        />
      )}
      <label>
        Smoothing
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={settings.smoothing}
          onChange={(event) =>
            setParameters({ smooth: Number(event.target.value) ? event.target.value : "" })
          }
        />
        <span className="smoothing-value">{settings.smoothing.toFixed(2)}</span>
      </label>
      <button
        type="button"
        className="button"
        aria-pressed={settings.log}
        onClick={() => setParameters({ scale: settings.log ? "" : "log" })}
      >
        Log scale
      </button>
      {ranks && (
        <Switch
          label="Ranks"
          value={settings.band ? "band" : "each"}
          choices={[
            ["band", "Mean and range"],
            ["each", "Each rank"],
          ]}
          choose={(value) => setParameters({ ranks: value === "each" ? "each" : "" })}
        />
      )}
      {isZoomed && (
        <button type="button" className="button" onClick={() => settings.zoom.set(null)}>
          Reset the zoom
        </button>
      )}
    </div>
  );
}

function setAxis(axis: string): void {
  setParameters({ x: axis, zoom: "" });
}

/** Steps, times, and any metric of the run: too many for a row of buttons. */
function AxisSelect({ axis, metrics }: { axis: XAxis; metrics: readonly string[] }) {
  const metric = axisMetric(axis);
  const names = [...new Set([...(metric ? [metric] : []), ...metrics])];
  return (
    <select
      className="input axis-select"
      aria-label="x axis"
      value={axis}
      onChange={(event) => setAxis(event.target.value)}
    >
      {axes.map(([value, label]) => (
        <option key={value} value={value}>
          x: {label.toLowerCase()}
        </option>
      ))}
      {names.length > 0 && (
        <optgroup label="Metrics">
          {names.map((name) => (
            <option key={name} value={`metric:${name}`}>
              x: {name}
            </option>
          ))}
        </optgroup>
      )}
    </select>
  );
}
