import { useMemo, useState } from "react";
import type { Run } from "../../../api/types";
import { ChartTools } from "../../../charts/ChartTools";
import { axisMetric, axisNames } from "../../../charts/lines";
import { MarkKey } from "../../../charts/MarkKey";
import { useChartSettings } from "../../../charts/useChartSettings";
import { Empty } from "../../../parts/Empty";
import { isActive } from "../../../parts/StateBadge";
import { TelemetrySections } from "../telemetry/TelemetrySections";
import { groupNames } from "./groups";
import { Histograms } from "./Histograms";
import { MetricChart } from "./MetricChart";
import { useMarks } from "./useMarks";

/** The curves of a run, in groups by the first part of their names. */
export function ChartsTab({ run }: { run: Run }) {
  const settings = useChartSettings();
  const [text, setText] = useState("");
  const names = Object.keys(run.latest);
  const key = names.join("\n");
  const groups = useMemo(() => groupNames(key ? key.split("\n") : [], text), [key, text]);
  const { axis } = settings;
  const all = useMarks(run);
  // By a metric, only events with a step have a place.
  const marks = useMemo(
    () => (axisMetric(axis) === null ? all : all.filter(({ step }) => step !== undefined)),
    [all, axis],
  );
  const ranks = Math.max(1, run.spec.nodes * run.spec.devices + run.spec.remainder);
  if (names.length === 0) {
    return (
      <div className="view">
        <Histograms run={run} search="" otherwise={<NoMetrics run={run} />} />
      </div>
    );
  }
  return (
    <div className="view">
      <ChartTools
        settings={settings}
        ranks={ranks > 1 && axisMetric(axis) === null}
        metrics={axisNames(names)}
        search={{ text, set: setText }}
      />
      <MarkKey marks={marks} />
      {groups.map(({ group, names }) => (
        <details className="chart-section" key={group} open>
          <summary>
            {group}
            <span className="faint">{names.length}</span>
          </summary>
          <Section names={names} run={run} ranks={ranks} settings={settings} marks={marks} />
        </details>
      ))}
      {groups.length === 0 && (
        <p className="muted chart-none">No metric has “{text}” in its name.</p>
      )}
      <Histograms run={run} search={text} />
      {(axis === "time" || axis === "relative") && (
        <TelemetrySections run={run} settings={settings} marks={marks} search={text} />
      )}
    </div>
  );
}

const first = 60;

type SectionProps = { names: string[] } & Omit<Parameters<typeof MetricChart>[0], "name">;

/** A group may have thousands of metrics: the first ones are there at once. */
function Section({ names, ...rest }: SectionProps) {
  const [count, setCount] = useState(first);
  return (
    <>
      <div className="chart-grid">
        {names.slice(0, count).map((name) => (
          <MetricChart key={name} name={name} {...rest} />
        ))}
      </div>
      {names.length > count && (
        <button type="button" className="button chart-more" onClick={() => setCount(count + 300)}>
          Show more: {names.length - count} are left
        </button>
      )}
    </>
  );
}

function NoMetrics({ run }: { run: Run }) {
  if (run.state === "queued" || run.state === "starting") {
    return (
      <Empty title="The run has not started">
        Its curves appear here once a rank logs a metric.
      </Empty>
    );
  }
  return (
    <div className="empty">
      <strong>{isActive(run.state) ? "No metrics yet" : "This run logged no metrics"}</strong>
      <p>Log them in the program, on any rank:</p>
      <pre className="snippet">
        {'import lockstep\nlockstep.log({"train/loss": loss}, step=step)'}
      </pre>
    </div>
  );
}
