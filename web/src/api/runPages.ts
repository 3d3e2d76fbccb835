import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { get } from "./client";
import { runsLimit, useRuns } from "./queries";
import { noteRead } from "./running";
import { joinRuns } from "./shareRuns";

/** What the daemon selects by. `query` is a query line, whose answers may be short. */
export interface RunFilter {
  state?: string;
  query?: string;
}

/** Runs of a quick answer: they fill a window, and the daemon has them four times as fast. */
export const quickLimit = 100;

/**
 * The first runs of the list, live, and those after them as the reader asks for more. Later pages
 * are read once: what changes is nearly always among the newest runs. `rests`: the filter no longer
 * changes with each letter typed. Until then the list is short, and the daemon free for the next.
 */
export function useRunPages(filter: RunFilter, rests = true) {
  const key = JSON.stringify(filter);
  const full = useRuns(filter, rests);
  const quick = useRuns(filter, !rests, quickLimit);
  const isQuick = !isAnswer(full) && isAnswer(quick);
  const first = isQuick ? quick : full;
  const [wanted, setWanted] = useState("");
  const size = useRef(runsLimit);
  const later = useInfiniteQuery({
    queryKey: ["runs, later", filter],
    queryFn: async ({ signal, pageParam }) => {
      const page = await get("/api/v1/runs", {
        query: { ...filter, limit: size.current, after: pageParam || undefined } as {
          limit: number;
        },
        signal,
      });
      noteRead(page.runs);
      return page;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
    enabled: wanted === key,
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
  const loadMore = (limit = runsLimit) => {
    size.current = limit;
    if (wanted !== key) setWanted(key);
    if (!later.isFetching && pages && later.hasNextPage) void fetchNextPage();
  };
  return { ...first, runs, more, isQuick, loadMore, loading: later.isFetching };
}

function isAnswer(list: { isSuccess: boolean; isPlaceholderData: boolean }): boolean {
  return list.isSuccess && !list.isPlaceholderData;
}
