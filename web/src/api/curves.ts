// Curves of a metric of many runs, by one call.
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { isLive } from "../live/live";
import { Batch } from "./batch";
import { get } from "./client";
import type { CurveView } from "./types";

const runsMax = 100;
/** Of a row of the table. */
const sparkPixels = 40;

const sparks = new Map<string, Batch<string, CurveView | null>>();

function sparksOf(metric: string): Batch<string, CurveView | null> {
  const known = sparks.get(metric);
  if (known) return known;
  const made = new Batch<string, CurveView | null>(async (ids) => {
    const query = { metric, runs: ids.join(","), pixels: sparkPixels };
    const { curves } = await get("/api/v1/curves", { query });
    return ids.map((id) => curves.find(({ run }) => run === id) ?? null);
  }, runsMax);
  sparks.set(metric, made);
  return made;
}

/** The curve of one row; rows in view share a call. `live`: the run logs further points. */
export function sparkQuery(id: string, metric: string, live: boolean) {
  return queryOptions({
    queryKey: ["spark", id, metric],
    queryFn: () => sparksOf(metric).load(id),
    staleTime: live ? 0 : Number.POSITIVE_INFINITY,
    refetchInterval: () => live && !isLive() && 10_000,
    refetchOnWindowFocus: false,
    retry: false,
  });
}

const chartPixels = 600;

/** Curves with a metric as the x axis, such as tokens. */
export function curvesByMetric(
  ids: readonly string[],
  metric: string,
  by: string,
  zoom: readonly [number, number] | null,
  live: boolean,
) {
  const runs = ids.join(",");
  const [from, to] = zoom ?? [];
  const query = { metric, runs, pixels: chartPixels, band: true, x_metric: by, from, to };
  return queryOptions({
    queryKey: ["metric", ids.length === 1 ? runs : ids, metric, "by", by, zoom],
    queryFn: ({ signal }) => get("/api/v1/curves", { query, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: () => live && (isLive() ? 30_000 : 4_000),
    staleTime: live ? 0 : 60_000,
  });
}
