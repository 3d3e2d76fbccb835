import { useMemo, useState } from "react";
import type { Run } from "../../../api/types";
import { ChartTools } from "../../../charts/ChartTools";
import { useChartSettings } from "../../../charts/useChartSettings";
import { Empty } from "../../../parts/Empty";
import { marksOf } from "../charts/marks";
import { TelemetrySections } from "./TelemetrySections";

/** What the agents measured on the run's hosts and devices, each second. */
export function TelemetryTab({ run }: { run: Run }) {
  const asked = useChartSettings("relative");
  const settings = useMemo(
    () =>
      asked.axis === "step"
        ? { ...asked, axis: "relative" as const, zoom: null, syncKey: "relative" }
        : asked,
    [asked],
  );
  const [text, setText] = useState("");
  // biome-ignore lint/correctness/useExhaustiveDependencies: marks follow attempts and checkpoints.
  const marks = useMemo(() => marksOf(run, settings.axis), [run.version, run.id, settings.axis]);
  if (run.attempts.length === 0) {
    return (
      <Empty title="The run has not started">Its hosts are measured while its ranks run.</Empty>
    );
  }
  return (
    <div className="view">
      <ChartTools settings={settings} axes={["relative", "time"]} search={{ text, set: setText }} />
      <TelemetrySections run={run} settings={settings} marks={marks} search={text} />
    </div>
  );
}
