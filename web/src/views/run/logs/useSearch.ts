import { useEffect, useState } from "react";
import type { LogLine } from "../../../api/types";
import { searchLog } from "./useLog";

const limit = 2_000;
const pauseMilliseconds = 200;

export interface Search {
  lines: LogLine[];
  all: boolean;
  busy: boolean;
  /** Why the pattern cannot be searched for, as the daemon says it. */
  problem: string | null;
}

const nothing: Search = { lines: [], all: true, busy: false, problem: null };

/** The lines of a run that match, a moment after the reader stops typing. */
export function useSearch(id: string, rank: number | undefined, pattern: string): Search {
  const [search, setSearch] = useState(nothing);
  useEffect(() => {
    if (!pattern) return setSearch(nothing);
    const stop = new AbortController();
    setSearch((before) => ({ ...before, busy: true }));
    const timer = setTimeout(async () => {
      try {
        const found = await searchLog(id, rank, pattern, limit, stop.signal);
        setSearch({ ...found, busy: false, problem: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        setSearch({ ...nothing, problem: error instanceof Error ? error.message : String(error) });
      }
    }, pauseMilliseconds);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [id, rank, pattern]);
  return search;
}
