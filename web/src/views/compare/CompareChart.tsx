import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricQuery } from "../../api/metrics";
import type { Run } from "../../api/types";
import { ChartCard, type ChartSettings } from "../../charts/ChartCard";
import type { Curve } from "../../charts/lines";
import { useVisible } from "../../charts/useVisible";
import { originOf } from "../run/charts/marks";

/** One metric of several runs: the mean over the ranks that log it, for each run. */
export function CompareChart(props: {
  name: string;
  runs: readonly Run[];
  settings: ChartSettings;
}) {
  const { name, runs, settings } = props;
  const [element, visible] = useVisible<HTMLDivElement>();
  const { data, ready } = useQueries({
    queries: runs.map((run) => ({
      ...metricQuery({
        id: run.id,
        name,
        lines: 4,
        live: run.state === "running",
      }),
      enabled: visible && name in run.latest,
    })),
    combine: (all) => ({
      data: all.map((each) => each.data),
      ready: all.some((each) => each.data),
    }),
  });
  const origins = runs.map((run) => `${run.id} ${run.name} ${originOf(run)}`).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: `origins` has what is used of the runs.
  const curves = useMemo<Curve[]>(
    () =>
      runs.flatMap((run, index) => {
        const series = data[index]?.series.find(
          ({ statistic }) => statistic === "mean" || statistic === null,
        );
        if (!series) return [];
        return [{ label: run.name, color: index, points: series.points, origin: originOf(run) }];
      }),
    [data, origins],
  );
  const each = useMemo(() => ({ ...settings, band: false }), [settings]);
  return (
    <div ref={element}>
      {visible && ready ? (
        <ChartCard title={name} curves={curves} settings={each} height={210} />
      ) : (
        <div className="card chart-waiting" />
      )}
    </div>
  );
}
