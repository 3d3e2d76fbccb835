// The columns that a reader has chosen, in their order. The browser keeps them; an address with
// `columns` overrides them, so that a table can be shared.
import { useState } from "react";
import { setParameters, useParameter } from "../../app/router";
import { firstColumns } from "./columns";

/** The first `pinned` columns stay in view while the others scroll to the side. */
export interface Layout {
  columns: string[];
  pinned: number;
}

export const firstLayout: Layout = { columns: firstColumns, pinned: 1 };

const columnsKey = "lockstep.columns";
const pinnedKey = "lockstep.pinned";

function kept(): Layout {
  try {
    const list = JSON.parse(localStorage.getItem(columnsKey) ?? "null");
    if (!Array.isArray(list) || list.length === 0) return firstLayout;
    return { columns: list.map(String), pinned: readPinned(localStorage.getItem(pinnedKey)) };
  } catch {
    return firstLayout;
  }
}

/** A number of columns; without one, only the first is pinned. */
export function readPinned(text: string | null): number {
  return text && /^\d{1,3}$/.test(text) ? Number(text) : firstLayout.pinned;
}

export function useColumns(): [Layout, (layout: Layout) => void] {
  const [columns] = useParameter("columns");
  const [pinned] = useParameter("pinned");
  const [own, setOwn] = useState(kept);
  const layout = columns ? { columns: columns.split(","), pinned: readPinned(pinned) } : own;
  return [
    layout,
    (next) => {
      if (columns) {
        setParameters({ columns: next.columns.join(","), pinned: String(next.pinned) });
      } else {
        localStorage.setItem(columnsKey, JSON.stringify(next.columns));
        localStorage.setItem(pinnedKey, String(next.pinned));
      }
      setOwn(next);
    },
  ];
}

/** The layout with a column one place further. A step across the border of the pinned columns
    pins it, or ends that, and leaves the order. */
export function moveColumn(layout: Layout, id: string, by: 1 | -1): Layout {
  const { columns, pinned } = layout;
  const from = columns.indexOf(id);
  const to = from + by;
  if (from < 0 || to < 0 || to >= columns.length) return layout;
  if (from < pinned !== to < pinned) return { columns, pinned: pinned - by };
  return { columns: placed(columns, from, to), pinned };
}

/** The layout with one column dragged to the place of another: it is pinned if that one is. */
export function placeColumn(layout: Layout, id: string, other: string): Layout {
  const { columns, pinned } = layout;
  const from = columns.indexOf(id);
  const to = columns.indexOf(other);
  if (from < 0 || to < 0) return layout;
  const change = Number(to < pinned) - Number(from < pinned);
  return { columns: placed(columns, from, to), pinned: pinned + change };
}

/** Pins a column behind those that are pinned, or ends that. */
export function togglePin({ columns, pinned }: Layout, id: string): Layout {
  const from = columns.indexOf(id);
  if (from < 0) return { columns, pinned };
  if (from < pinned) return { columns: placed(columns, from, pinned - 1), pinned: pinned - 1 };
  return { columns: placed(columns, from, pinned), pinned: pinned + 1 };
}

/** Shows a column as the last one, or hides it. */
export function toggleColumn({ columns, pinned }: Layout, id: string): Layout {
  const from = columns.indexOf(id);
  if (from < 0) return { columns: [...columns, id], pinned: Math.min(pinned, columns.length) };
  return {
    columns: columns.filter((column) => column !== id),
    pinned: pinned - Number(from < pinned),
  };
}

function placed(columns: readonly string[], from: number, to: number): string[] {
  const id = columns[from] ?? "";
  const next = columns.filter((column) => column !== id);
  next.splice(to, 0, id);
  return next;
}
