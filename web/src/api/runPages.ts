import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { get } from "./client";
import { runsLimit, useRuns } from "./queries";
import { noteRead } from "./running";
import { joinRuns } from "./shareRuns";

/** What the daemon selects by. `query` is a query line, whose answers may be short. */
export interface RunFilter {
  state?: string;
  query?: string;
}

/**
 * The first runs of the list, live, and those after them as the reader asks for more. Later pages
 * are read once: what changes is nearly always among the newest runs.
 */
export function useRunPages(filter: RunFilter, enabled = true) {
  const key = JSON.stringify(filter);
  const first = useRuns(filter, enabled);
  const [wanted, setWanted] = useState("");
  const later = useInfiniteQuery({
    queryKey: ["runs, later", filter],
    queryFn: async ({ signal, pageParam }) => {
      const page = await get("/api/v1/runs", {
        query: { ...filter, limit: runsLimit, after: pageParam || undefined } as { limit: number },
        signal,
      });
      noteRead(page.runs);
      return page;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
    enabled: enabled && wanted === key,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const pages = wanted === key ? later.data?.pages : undefined;
  const head = first.data?.runs;
  const runs = useMemo(() => joinRuns(head ?? [], pages ?? []), [head, pages]);
  const more = pages ? later.hasNextPage : !!first.data?.next;
  // The cursor belongs to one reading of the list, so a reader who wants more begins one.
  const { fetchNextPage } = later;
  const onlyFirst = pages?.length === 1 && later.hasNextPage && !later.isFetching;
  // The first page of that reading has the runs that are there already.
  useEffect(() => {
    if (onlyFirst) void fetchNextPage();
  }, [onlyFirst, fetchNextPage]);
  const loadMore = () => {
    if (wanted !== key) setWanted(key);
    if (!later.isFetching && pages && later.hasNextPage) void fetchNextPage();
  };
  return { ...first, runs, more, loadMore, loading: later.isFetching };
}
