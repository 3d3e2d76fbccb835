// The latest readings of the devices that runs hold: each node's agent measures them.
import { useQueries, useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import { splitId } from "../../api/queries";
import { type Queue, type Run, type SeriesList, toNumber } from "../../api/types";
import type { Reading } from "./shades";

/** More nodes than this are not asked for: each is a call. */
const nodesMax = 64;
const pause = 5_000;

/** By host, its devices in the order of their numbers. */
export type Readings = Map<string, Map<string, Reading[]>>;

export function useReadings(queue: Queue | undefined, wanted: boolean): Readings {
  const ids = wanted ? (queue?.allocations ?? []).map(({ run }) => run).filter(Boolean) : [];
  const runs = useQuery({
    queryKey: ["readings", "nodes", ids],
    queryFn: ({ signal }) =>
      Promise.all(
        ids
          .slice(0, nodesMax)
          .map((id) => get("/api/v1/runs/{project}/{number}", { path: splitId(id), signal })),
      ),
    enabled: wanted && ids.length > 0,
    staleTime: 60_000,
  });
  const nodes = (wanted ? (runs.data ?? []) : []).flatMap(nodesOf).slice(0, nodesMax);
  return useQueries({
    queries: nodes.map(({ id, index }) => ({
      queryKey: ["readings", id, index],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get("/api/v1/runs/{project}/{number}/metrics", {
          path: splitId(id),
          query: { node: index, pixels: 1 },
          signal,
        }),
      refetchInterval: pause,
    })),
    combine: (answers) => {
      const readings: Readings = new Map();
      answers.forEach((answer, at) => {
        const node = nodes[at];
        if (!node || !answer.data) return;
        const ofHost = readings.get(node.host) ?? new Map<string, Reading[]>();
        readings.set(node.host, ofHost.set(node.id, readingsOf(answer.data)));
      });
      return readings;
    },
  });
}

function nodesOf(run: Run): { id: string; index: number; host: string }[] {
  const nodes = run.attempts.at(-1)?.nodes ?? [];
  return nodes.map(({ index, host }) => ({ id: run.id, index, host }));
}

const fields: Record<string, keyof Reading> = {
  utilization_percent: "use",
  power_watts: "watts",
  power_limit_watts: "wattsMax",
  temperature_celsius: "celsius",
};

/** The last value of each series `device3/power_watts`. */
export function readingsOf(list: SeriesList): Reading[] {
  const devices = new Map<number, Reading>();
  for (const series of list.series) {
    const [, number, name = ""] = /^device(\d+)\/(\w+)$/.exec(series.name) ?? [];
    const field = fields[name];
    const last = series.points.at(-1);
    if (number === undefined || !field || !last) continue;
    const value = toNumber(last.value);
    if (!Number.isFinite(value)) continue;
    const reading = devices.get(Number(number)) ?? {};
    devices.set(Number(number), { ...reading, [field]: value });
  }
  return [...devices].sort(([a], [b]) => a - b).map(([, reading]) => reading);
}
