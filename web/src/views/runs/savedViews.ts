// A saved view of the table of runs is the query of its address. Pure.
export interface TableView {
  query: string;
  columns: readonly string[];
  /** The first columns that stay in view. */
  pinned: number;
}

export function viewText({ query, columns, pinned }: TableView): string {
  const values = new URLSearchParams();
  if (query) values.set("q", query);
  values.set("columns", columns.join(","));
  values.set("pinned", String(pinned));
  return values.toString();
}

/** Only the parameters of the table count: the text may be of another version of the page. */
export function viewAddress(text: string): string {
  const values = new URLSearchParams(text);
  const kept = new URLSearchParams();
  for (const name of ["q", "columns", "pinned"]) {
    const value = values.get(name);
    if (value) kept.set(name, value);
  }
  return `/?${kept}`;
}
