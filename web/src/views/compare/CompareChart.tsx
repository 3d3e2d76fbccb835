import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { curvesByMetric } from "../../api/curves";
import { metricQuery } from "../../api/metrics";
import type { Run } from "../../api/types";
import { bandCurves } from "../../charts/bandCurves";
import { ChartCard, type ChartSettings } from "../../charts/ChartCard";
import { axisMetric, type Curve } from "../../charts/lines";
import { useVisible } from "../../charts/useVisible";
import { WaitingChart } from "../../charts/WaitingChart";
import { ErrorBox } from "../../parts/ErrorBox";
import { originOf } from "../run/charts/marks";

interface Props {
  name: string;
  runs: readonly Run[];
  settings: ChartSettings;
  title?: string;
  /** Drawn also out of view, as for a printer. */
  always?: boolean;
}

/** One metric of several runs: the mean over the ranks that log it, for each run. */
export function CompareChart(props: Props) {
  const metric = axisMetric(props.settings.axis);
  return metric === null ? <SeriesChart {...props} /> : <ByMetricChart {...props} by={metric} />;
}

/** One call has the curves of all runs. */
function ByMetricChart({ name, runs, settings, by, title, always }: Props & { by: string }) {
  const [element, inView] = useVisible<HTMLDivElement>();
  const visible = always || inView;
  const logging = runs.filter((run) => name in run.latest);
  const live = logging.some((run) => run.state === "running");
  const query = useQuery({
    ...curvesByMetric(
      logging.map((run) => run.id),
      name,
      by,
      settings.restedZoom,
      live,
    ),
    enabled: visible && logging.length > 0,
  });
  const names = runs.map((run) => `${run.id} ${run.name}`).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: `names` has what is used of the runs.
  const curves = useMemo(
    () =>
      (query.data?.curves ?? []).flatMap((curve) => {
        const index = runs.findIndex((run) => run.id === curve.run);
        const [line] = bandCurves(curve, runs[index]?.name ?? curve.run, index);
        return line ? [{ ...line, statistic: undefined }] : [];
      }),
    [query.data, names],
  );
  const each = useMemo(() => ({ ...settings, band: false }), [settings]);
  return (
    <div ref={element}>
      {visible && query.isError && <ErrorBox error={query.error} />}
      {visible && query.data ? (
        <ChartCard title={title ?? name} curves={curves} settings={each} height={210} />
      ) : (
        !query.isError && <WaitingChart title={title ?? name} />
      )}
    </div>
  );
}

function SeriesChart(props: Props) {
  const { name, runs, settings, title } = props;
  const [element, inView] = useVisible<HTMLDivElement>();
  const visible = props.always || inView;
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
        <ChartCard title={title ?? name} curves={curves} settings={each} height={210} />
      ) : (
        <WaitingChart title={title ?? name} />
      )}
    </div>
  );
}
