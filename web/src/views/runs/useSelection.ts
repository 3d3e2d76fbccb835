// The runs that the reader has selected: single rows, or all that the query line selects.
import type { RowSelectionState } from "@tanstack/react-table";
import { useEffect, useMemo, useState } from "react";
import type { Run } from "../../api/types";

export type Share = "none" | "some" | "all";

interface Pages {
  more: boolean;
  loading: boolean;
  loadMore: () => void;
}

/**
 * `runs` are those of the query line among `read`, which the page has. `readMax`: runs that the page
 * reads at most to select them all.
 */
export function useSelection(
  read: readonly Run[],
  runs: readonly Run[],
  pages: Pages,
  query: string,
  readMax: number,
) {
  const [selection, setSelection] = useState<RowSelectionState>({});
  // The query line whose further runs are selected as they are read; null: of none.
  const [wanted, setWanted] = useState<string | null>(null);
  const selected = useMemo(() => read.filter((run) => selection[run.id]), [read, selection]);
  const share = useMemo(() => shareOf(runs, selection), [runs, selection]);
  const mayRead = pages.more && read.length < readMax;
  const reads = wanted === query && mayRead;
  const { loadMore } = pages;
  useEffect(() => {
    if (wanted === query && share === "some") setSelection((before) => withRuns(before, runs));
    else if (wanted !== null && !reads) setWanted(null); // runs that come later are not selected
    if (reads) loadMore();
  }, [wanted, query, share, runs, reads, loadMore]);
  return {
    selection,
    selected,
    share,
    set: (change: (before: RowSelectionState) => RowSelectionState) => {
      setWanted(null);
      setSelection(change);
    },
    clear: () => {
      setWanted(null);
      setSelection({});
    },
    toggleAll: () => {
      setWanted(null);
      setSelection((before) =>
        share === "all" ? withoutRuns(before, runs) : withRuns(before, runs),
      );
    },
    /** All runs that are there are selected, and the daemon has further ones. */
    rest:
      share === "all" || reads ? { exists: mayRead, reads, read: () => setWanted(query) } : null,
  };
}

export function shareOf(runs: readonly Run[], selection: RowSelectionState): Share {
  const isSelected = (run: Run) => selection[run.id] === true;
  if (!runs.some(isSelected)) return "none";
  return runs.every(isSelected) ? "all" : "some";
}

export function withRuns(before: RowSelectionState, runs: readonly Run[]): RowSelectionState {
  const after = { ...before };
  for (const { id } of runs) after[id] = true;
  return after;
}

export function withoutRuns(before: RowSelectionState, runs: readonly Run[]): RowSelectionState {
  const after = { ...before };
  for (const { id } of runs) delete after[id];
  return after;
}
