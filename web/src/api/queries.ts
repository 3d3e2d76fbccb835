// What views read from the daemon, and how often.
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError, get } from "./client";
import type { RunFilter } from "./runPages";
import { shareRuns } from "./shareRuns";
import type { Run, RunList } from "./types";

export const runsLimit = 1000;

export function useRuns(filter: RunFilter = {}, enabled = true) {
  return useQuery({
    enabled,
    queryKey: ["runs", filter],
    queryFn: ({ signal }) =>
      get("/api/v1/runs", {
        query: { ...filter, limit: runsLimit } as { limit: number },
        signal,
      }),
    // A long list costs the daemon more, so it is read less often.
    refetchInterval: (query) => 2_500 + 10 * (query.state.data?.runs.length ?? 0),
    placeholderData: keepPreviousData,
    structuralSharing: (before, after) =>
      shareRuns(before as RunList | undefined, after as RunList),
  });
}

export function splitId(id: string): { project: string; number: string } {
  const [project = "", number = ""] = id.split("/");
  return { project, number };
}

/** One run, live: each answer comes when the run has changed, or after some seconds. */
export function useRun(id: string) {
  const client = useQueryClient();
  const [lost, setLost] = useState(false);
  const query = useQuery({
    queryKey: ["run", id],
    queryFn: ({ signal }) => get("/api/v1/runs/{project}/{number}", { path: splitId(id), signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const loaded = query.isSuccess;
  useEffect(() => {
    if (!loaded) return;
    const stop = new AbortController();
    void followRun(id, stop.signal, setLost, {
      current: () => client.getQueryData<Run>(["run", id]),
      set: (run) => client.setQueryData(["run", id], run),
    });
    return () => stop.abort();
  }, [id, loaded, client]);
  return { ...query, lost };
}

interface Cell {
  current: () => Run | undefined;
  set: (run: Run) => void;
}

async function followRun(
  id: string,
  signal: AbortSignal,
  setLost: (lost: boolean) => void,
  cell: Cell,
): Promise<void> {
  let pause = 250;
  while (!signal.aborted) {
    try {
      // Reports of steps do not change the version, so a running run is also read every two seconds.
      const wait = cell.current()?.state === "running" ? 2 : 20;
      const run = await get("/api/v1/runs/{project}/{number}", {
        path: splitId(id),
        query: { after_version: cell.current()?.version ?? 0, wait },
        signal,
      });
      cell.set(run);
      setLost(false);
      pause = 250;
    } catch (error) {
      if (signal.aborted) return;
      setLost(true);
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) return;
      pause = Math.min(pause * 2, 10_000);
    }
    await sleep(pause, signal);
  }
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
    refetchInterval: 4_000,
  });
}

export function useHosts() {
  return useQuery({
    queryKey: ["hosts"],
    queryFn: ({ signal }) => get("/api/v1/hosts", { signal }),
    refetchInterval: 4_000,
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
    refetchInterval: 10_000,
    retry: false,
  });
}
