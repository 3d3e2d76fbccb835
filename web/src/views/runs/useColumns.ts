// The columns that a reader has chosen, in their order. The browser keeps them; an address with
// `columns` overrides them, so that a table can be shared.
import { useState } from "react";
import { useParameter } from "../../app/router";
import { firstColumns } from "./columns";

const key = "lockstep.columns";

function kept(): string[] {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? "null");
    return Array.isArray(list) && list.length > 0 ? list.map(String) : firstColumns;
  } catch {
    return firstColumns;
  }
}

export function useColumns(): [string[], (columns: string[]) => void] {
  const [shared, setShared] = useParameter("columns");
  const [own, setOwn] = useState(kept);
  const columns = shared ? shared.split(",") : own;
  return [
    columns,
    (next) => {
      if (shared) setShared(next.join(","));
      else localStorage.setItem(key, JSON.stringify(next));
      setOwn(next);
    },
  ];
}

export function moveColumn(columns: readonly string[], id: string, by: number): string[] {
  const from = columns.indexOf(id);
  const to = from + by;
  if (from < 0 || to < 0 || to >= columns.length) return [...columns];
  const next = columns.filter((column) => column !== id);
  next.splice(to, 0, id);
  return next;
}

/** The columns with one of them dragged to the place of another. */
export function placeColumn(columns: readonly string[], from: string, to: string): string[] {
  return moveColumn(columns, from, columns.indexOf(to) - columns.indexOf(from));
}
