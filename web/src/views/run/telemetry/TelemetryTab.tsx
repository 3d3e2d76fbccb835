import { useMemo, useState } from "react";
import type { Run } from "../../../api/types";
import { ChartTools } from "../../../charts/ChartTools";
import { MarkKey } from "../../../charts/MarkKey";
import { useChartSettings } from "../../../charts/useChartSettings";
import { localZoom } from "../../../charts/zoom";
import { Empty } from "../../../parts/Empty";
import { useMarks } from "../charts/useMarks";
import { TelemetrySections } from "./TelemetrySections";

/** What the agents measured on the run's hosts and devices, each second. */
export function TelemetryTab({ run }: { run: Run }) {
  const asked = useChartSettings("relative");
  const [zoom] = useState(localZoom);
  const settings = useMemo(
    () =>
      asked.axis !== "relative" && asked.axis !== "time"
        ? { ...asked, axis: "relative" as const, zoom, restedZoom: null, syncKey: "relative" }
        : asked,
    [asked, zoom],
  );
  const [text, setText] = useState("");
  const marks = useMarks(run);
  if (run.attempts.length === 0) {
    return (
      <Empty title="The run has not started">Its hosts are measured while its ranks run.</Empty>
    );
  }
  return (
    <div className="view">
      <ChartTools settings={settings} axes={["relative", "time"]} search={{ text, set: setText }} />
      <MarkKey marks={marks} />
      <TelemetrySections run={run} settings={settings} marks={marks} search={text} />
    </div>
  );
}
