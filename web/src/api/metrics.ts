import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { isLive } from "../live/live";
import { get } from "./client";
import { splitId } from "./queries";

/** Two points a pixel of a chart; the daemon keeps the extremes of each stretch. */
const pointsPerLine = 800;
const mostPoints = 100_000;

export interface MetricQuery {
  id: string;
  name: string;
  /** Lines that the answer may have, such as one for each rank. */
  lines: number;
  /** The series of each rank, instead of mean, least and greatest over the ranks. */
  each?: boolean;
  node?: number;
  /** Only points after this step, for a zoom. */
  afterStep?: number;
  live: boolean;
}

export function metricQuery({ id, name, lines, each, node, afterStep, live }: MetricQuery) {
  return queryOptions({
    queryKey: ["metric", id, name, each ?? false, node ?? null, afterStep ?? null],
    queryFn: ({ signal }) =>
      get("/api/v1/runs/{project}/{number}/metrics", {
        path: splitId(id),
        query: {
          name,
          node,
          after_step: afterStep,
          ranks: node === undefined ? (each ? "each" : "aggregate") : undefined,
          points: Math.min(mostPoints, pointsPerLine * Math.max(1, lines)),
        },
        signal,
      }),
    placeholderData: keepPreviousData,
    refetchInterval: () => live && (isLive() ? 30_000 : 4_000),
    staleTime: live ? 0 : 60_000,
  });
}

/** The names of a node's telemetry, and of metrics: few points of each. */
export function telemetryNames(id: string, node: number) {
  return queryOptions({
    queryKey: ["telemetry", id, node],
    queryFn: async ({ signal }) => {
      const list = await get("/api/v1/runs/{project}/{number}/metrics", {
        path: splitId(id),
        query: { node, points: 500 },
        signal,
      });
      return list.series.map((series) => series.name);
    },
    staleTime: 30_000,
  });
}
