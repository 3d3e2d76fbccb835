import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { isLive } from "../live/live";
import { get } from "./client";
import { splitId } from "./queries";

const pageSize = 1_000;

/** The histograms that the ranks of a run have logged, by name, step and rank, in pages. */
export function histogramsQuery(id: string, live: boolean) {
  return infiniteQueryOptions({
    queryKey: ["histograms", id],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/runs/{project}/{number}/histograms", {
        path: splitId(id),
        query: { limit: pageSize, skip: pageParam },
        signal,
      }),
    initialPageParam: 0,
    getNextPageParam: (page, pages) => (page.more ? pages.length * pageSize : undefined),
    staleTime: 10_000,
    refetchInterval: () => live && (isLive() ? 30_000 : 10_000),
  });
}

/** If the run has logged any. */
export function hasHistogramsQuery(id: string, live: boolean) {
  return queryOptions({
    queryKey: ["histograms", id, "any"],
    queryFn: async ({ signal }) => {
      const query = { limit: 1 };
      const path = splitId(id);
      const list = await get("/api/v1/runs/{project}/{number}/histograms", { path, query, signal });
      return list.histograms.length > 0;
    },
    staleTime: 10_000,
    refetchInterval: ({ state }) => live && !state.data && 30_000,
  });
}
