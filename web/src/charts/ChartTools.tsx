import { setParameters } from "../app/router";
import { Switch } from "../parts/Switch";
import type { ChartSettings } from "./ChartCard";
import type { XAxis } from "./lines";

const axes: readonly [XAxis, string][] = [
  ["step", "Step"],
  ["relative", "Relative time"],
  ["time", "Time"],
];

interface Props {
  settings: ChartSettings;
  axes?: readonly XAxis[];
  ranks?: boolean;
  search?: { text: string; set: (text: string) => void };
}

/** The axis, smoothing and scale of all charts of a view. */
export function ChartTools({ settings, ranks, search, axes: offered }: Props) {
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
      <Switch
        label="x axis"
        value={settings.axis}
        choices={axes.filter(([axis]) => offered?.includes(axis) ?? true)}
        choose={(axis) => setParameters({ x: axis, zoom: "" })}
      />
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
      {settings.zoom && (
        <button type="button" className="button" onClick={() => settings.setZoom(null)}>
          Reset the zoom
        </button>
      )}
    </div>
  );
}
