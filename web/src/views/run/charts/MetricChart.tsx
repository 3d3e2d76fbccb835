import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { curvesByMetric } from "../../../api/curves";
import { metricQuery } from "../../../api/metrics";
import type { Run } from "../../../api/types";
import { bandCurves } from "../../../charts/bandCurves";
import { ChartCard, type ChartSettings } from "../../../charts/ChartCard";
import { axisMetric, type Curve } from "../../../charts/lines";
import type { Mark } from "../../../charts/marks";
import { outlierOf } from "../../../charts/outlier";
import { useVisible } from "../../../charts/useVisible";
import { WaitingChart } from "../../../charts/WaitingChart";
import { ErrorBox } from "../../../parts/ErrorBox";
import { originOf } from "./marks";

interface Props {
  name: string;
  run: Run;
  ranks: number;
  settings: ChartSettings;
  marks: readonly Mark[];
}

const mostCurves = 50;
const none: Curve[] = [];

/** One metric of a run: a line, or one for each rank that logs it. */
export function MetricChart(props: Props) {
  const metric = axisMetric(props.settings.axis);
  if (metric === null) return <SeriesChart {...props} />;
  return <ByMetricChart {...props} metric={metric} />;
}

/** The mean over ranks within its band, by the value of another metric. */
function ByMetricChart({ name, run, settings, marks, metric }: Props & { metric: string }) {
  const [element, visible] = useVisible<HTMLDivElement>();
  const query = useQuery({
    ...curvesByMetric([run.id], name, metric, settings.restedZoom, run.state === "running"),
    enabled: visible,
  });
  const curves = useMemo(
    () => (query.data?.curves ?? []).flatMap((curve) => bandCurves(curve, lastPart(name), 0)),
    [query.data, name],
  );
  return (
    <div ref={element}>
      {visible && query.isError && <ErrorBox error={query.error} />}
      {visible && query.data ? (
        <ChartCard title={name} curves={curves} settings={settings} marks={marks} />
      ) : (
        !query.isError && <WaitingChart title={name} />
      )}
    </div>
  );
}

function SeriesChart({ name, run, ranks, settings, marks }: Props) {
  const [element, visible] = useVisible<HTMLDivElement>();
  const zoomed = settings.axis === "step" ? settings.restedZoom : null;
  const query = useQuery({
    ...metricQuery({
      id: run.id,
      name,
      lines: settings.band ? 4 : Math.min(ranks, mostCurves),
      each: !settings.band,
      afterStep: zoomed ? Math.max(-1, Math.floor(zoomed[0]) - 1) : undefined,
      live: run.state === "running",
    }),
    enabled: visible,
  });
  const origin = originOf(run);
  const curves = useMemo(
    () =>
      query.data?.series
        .filter((series) => series.statistic !== "spread")
        .slice(0, mostCurves)
        .map((series) => ({
          label: series.statistic ?? `rank ${series.rank}`,
          color: series.statistic ? 0 : series.rank,
          points: series.points,
          origin,
          statistic: series.statistic === "spread" ? undefined : (series.statistic ?? undefined),
        })) ?? none,
    [query.data, origin],
  );
  const outlier = useMemo(() => outlierOf(query.data?.series ?? []), [query.data]);
  return (
    <div ref={element}>
      {visible && query.isError && <ErrorBox error={query.error} />}
      {visible && query.data ? (
        <ChartCard
          title={name}
          curves={curves.length === 1 ? named(curves, name) : curves}
          settings={settings}
          marks={marks}
          note={
            outlier && (
              <span className="chart-outlier" title="The rank farthest from the mean at the end">
                rank {outlier.rank} {outlier.side}
              </span>
            )
          }
        />
      ) : (
        !query.isError && <WaitingChart title={name} />
      )}
    </div>
  );
}

const cache = new WeakMap<readonly Curve[], Curve[]>();

/** A single curve needs no number of a rank; its colour is the first one. */
function named(curves: readonly Curve[], name: string): Curve[] {
  const known = cache.get(curves);
  if (known) return known;
  const label = lastPart(name);
  const made = curves.map((curve) => ({ ...curve, label, color: 0 }));
  cache.set(curves, made);
  return made;
}

function lastPart(name: string): string {
  return name.split("/").at(-1) ?? name;
}
