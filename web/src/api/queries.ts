// What views read from the daemon, and how often.
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { useIsLive, usePause } from "../live/live";
import { get } from "./client";
import { noteRead } from "./running";
import type { RunFilter } from "./runPages";
import { shareRuns } from "./shareRuns";
import type { RunList } from "./types";

export const runsLimit = 1000;

/** Runs of a comparison. */
export const compareMax = 20;

export function useRuns(filter: RunFilter = {}, enabled = true, limit = runsLimit) {
  const live = useIsLive();
  return useQuery({
    enabled,
    queryKey: ["runs", filter, limit],
    queryFn: async ({ signal }) => {
      const list = await get("/api/v1/runs", {
        query: { ...filter, limit } as { limit: number },
        signal,
      });
      noteRead(list.runs);
      return list;
    },
    // A long list costs the daemon more, so it is read less often.
    refetchInterval: (query) => (live ? 60_000 : 2_500 + 10 * (query.state.data?.runs.length ?? 0)),
    placeholderData: keepPreviousData,
    structuralSharing: (before, after) =>
      shareRuns(before as RunList | undefined, after as RunList),
  });
}

export function splitId(id: string): { project: string; number: string } {
  const [project = "", number = ""] = id.split("/");
  return { project, number };
}

/** One run, read again when the stream of changes names it. */
export function runQuery(id: string) {
  return queryOptions({
    queryKey: ["run", id],
    queryFn: ({ signal }) => get("/api/v1/runs/{project}/{number}", { path: splitId(id), signal }),
  });
}

/** One run. `lost`: the daemon does not answer. */
export function useRun(id: string) {
  const query = useQuery({ ...runQuery(id), refetchInterval: usePause(2_000) });
  const lost = query.data !== undefined && (query.failureCount > 0 || query.isRefetchError);
  return { ...query, lost };
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

export function useQueue() {
  return useQuery({
    queryKey: ["queue"],
    queryFn: ({ signal }) => get("/api/v1/queue", { signal }),
    refetchInterval: usePause(4_000),
  });
}

export function useHosts() {
  return useQuery({
    queryKey: ["hosts"],
    queryFn: ({ signal }) => get("/api/v1/hosts", { signal }),
    refetchInterval: usePause(4_000),
  });
}

export function useMap() {
  return useQuery({
    queryKey: ["map"],
    queryFn: ({ signal }) => get("/api/v1/map", { signal }),
    staleTime: 60_000,
  });
}

/** Also says if the daemon answers: the status bar shows it. */
export function useVersion() {
  return useQuery({
    queryKey: ["version"],
    queryFn: ({ signal }) => get("/api/v1/version", { signal }),
    refetchInterval: usePause(10_000),
    retry: false,
  });
}
